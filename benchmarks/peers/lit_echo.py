"""An echo of JSON by LitServe, one worker."""

import sys
from typing import Any

import litserve


class Echo(litserve.LitAPI):  # type: ignore[misc]  # it is not typed
    def setup(self, device: str) -> None:
        """Nothing to set up."""

    def decode_request(self, request: dict[str, Any]) -> dict[str, Any]:
        return request

    def predict(self, body: dict[str, Any]) -> dict[str, Any]:
        return body

    def encode_response(self, body: dict[str, Any]) -> dict[str, Any]:
        return body


if __name__ == "__main__":
    server = litserve.LitServer(Echo(api_path="/"), accelerator="cpu", workers_per_device=1)
    server.run(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
        access_log=False,
    )
