"""What can go wrong, as one tree. `faas.server.problem` alone turns it into HTTP.

FaasError
├── SettingError            a setting is unknown, out of range or contradicts another (also a ValueError)
├── TargetError             a target names no function that can be loaded
│   └── NotPrepared         a function could not be made ready: its own code, or what it needs, failed
├── StartFailed             an instance did not become ready: its load or its warm-up failed, or took too long
├── BadInput                the caller's input is wrong; handlers raise or return it too (also a ValueError)  422
│   ├── SchemaMismatch      well-formed, but not what the signature says; names the field                     422
│   ├── MalformedBody       not JSON, not UTF-8, not the encoding its header states                           400
│   ├── UnsupportedMedia    a stated type or encoding that the parameters cannot take                         415
│   ├── PayloadTooLarge     the body is over `max_payload`                                                    413
│   ├── UnknownVersion      the version that the call names is not served                                     404
│   ├── UnknownRequest      feedback on a call that is not remembered                                         404
│   └── BadLabel            a label that leads nowhere, or cannot lead where it should                        400
├── Refused                 not computed, try again after `retry_after_s`
│   ├── QueueFull           the bounded queue has no room                                                     429
│   ├── DeadlineUnmeetable  the deadline would pass before the answer                                         429
│   └── Unavailable         starting, draining, or the instance went away                                     503
├── DeadlineExceeded        `timeout_s` or the caller's own deadline passed                                   504
├── CallerGone              the caller left before its answer                                                 499
├── HandlerError            the handler broke its contract: wrong length, wrong type, a slot left empty       500
├── BadTrace                a file is no trace of calls
├── RemoteError             a function called elsewhere answered with an error; keeps its status
└── PlatformError           the one-box platform cannot be reached or cannot do what was asked
"""

from __future__ import annotations

from collections.abc import Mapping


class FaasError(Exception):
    """Root of every error that this package raises on purpose."""


class SettingError(FaasError, ValueError):
    """A setting is unknown, out of range, or contradicts another one."""


class TargetError(FaasError):
    """A target (`app.py`, `app.py:Embed`, `pkg.app:Embed`) names nothing that can be served."""


class StartFailed(FaasError):
    """An instance did not become ready: its load or its warm-up failed, or took too long."""


class NotPrepared(TargetError):
    """A function could not be made ready: its own code, or what it needs, failed.

    `function` is its name, and `siblings` those of all functions of the target, where it was loaded.
    """

    def __init__(self, message: str, function: str | None = None, siblings: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.function = function
        self.siblings = siblings


class BadInput(FaasError, ValueError):
    """The caller's input is wrong. A handler raises or returns it to fail one item with 422."""


class SchemaMismatch(BadInput):
    """Well-formed input that does not fit the signature.

    `field` is the path of the offending value, in the form `$.texts[3]`; `$` is the body itself.
    """

    field: str = "$"  # here too: a user's subclass may never call our __init__

    def __init__(self, message: str, field: str = "$") -> None:
        super().__init__(message)
        self.field = field


class MalformedBody(BadInput):
    """The body is not the JSON, the character set or the encoding that it is said to be."""


class UnsupportedMedia(BadInput):
    """The body is of a stated type or encoding that the parameters cannot take."""


class PayloadTooLarge(BadInput):
    """The body is larger than the function's `max_payload`."""


class UnknownVersion(BadInput):
    """The version that a call names is not served."""


class UnknownRequest(BadInput):
    """Feedback names a call that is not remembered, or has had its feedback."""


class BadLabel(BadInput):
    """A label of versions leads nowhere, or cannot lead where it should."""


class Refused(FaasError):
    """Nothing was computed. The caller may try again after `retry_after_s` seconds."""

    retry_after_s: float = 1.0

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class QueueFull(Refused):
    """The bounded queue has no room for one more item."""


class DeadlineUnmeetable(Refused):
    """The item's deadline would pass before its answer could be ready."""


class Unavailable(Refused):
    """The instance is starting or draining, or went away with the call."""


class DeadlineExceeded(FaasError):
    """The time allowed for the call has passed."""


class CallerGone(FaasError):
    """The caller left; nobody waits for the answer."""


class HandlerError(FaasError):
    """The handler returned what its contract does not allow."""


class BadTrace(FaasError):
    """A file that should hold a trace of calls cannot be read, or holds something else."""


class RemoteError(FaasError):
    """A function called over HTTP answered with an error.

    `status` is the HTTP status; `problem` the members of the problem+json body, if it was one.
    """

    status: int = 500
    problem: Mapping[str, object] = {}

    def __init__(self, message: str, status: int, problem: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}


class PlatformError(FaasError):
    """The one-box platform cannot be reached, or cannot do what was asked of it."""


def said(error: BaseException) -> str:
    """Return the message of an error, or that it cannot be read: a user's `__str__` may raise."""
    try:
        return str(error)
    except Exception as unreadable:
        return f"(its message cannot be read: {type(unreadable).__name__})"


def named(error: BaseException) -> str:
    """Return the type of an error and its message, where it has one: `KeyError: 'a'`."""
    name, message = type(error).__name__, said(error)
    return f"{name}: {message}" if message else name


def at_field(what: str, field: str) -> str:
    """Return what is wrong with an input, and where in it, unless `what` says so or it is wrong as a whole."""
    return what if field == "$" or field in what else f"{what} (at {field})"
