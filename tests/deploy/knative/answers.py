"""The `Status` documents with which an API server says no."""

from typing import Any

Document = dict[str, Any]

REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict",
    410: "Expired", 415: "UnsupportedMediaType", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable",
}  # fmt: skip


class Answer(Exception):
    """Raised where a request ends with an error."""

    def __init__(
        self, code: int, message: str, *, reason: str | None = None, causes: list[dict[str, str]] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason or REASONS[code],
            "code": code,
        }
        if causes:
            self.status["details"] = {"causes": causes}


def stale(plural: str, name: str) -> Answer:
    return Answer(
        409,
        f'Operation cannot be fulfilled on {plural} "{name}": the object has been modified; please apply your changes '
        "to the latest version and try again",
    )


def denied(problems: list[str]) -> Answer:
    text = "\n".join(problems)
    return Answer(
        400, f'admission webhook "validation.webhook.serving.knative.dev" denied the request: validation failed: {text}'
    )
