"""An echo of JSON by KServe's model server, in its one process."""

import sys
from typing import Any

from kserve import Model, ModelServer


class Echo(Model):  # type: ignore[misc]  # it is not looked into
    def __init__(self) -> None:
        super().__init__("echo")
        self.ready = True

    async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        return payload


if __name__ == "__main__":
    server = ModelServer(
        http_port=int(sys.argv[1]), workers=1, enable_grpc=False, enable_docs_url=False, access_log_format=None
    )
    server.start([Echo()])
