"""One of `models` by LitServe, one worker."""

import sys
from typing import Any

import litserve

from benchmarks.peers.models import WAIT_S, Metered, kind


class Model(litserve.LitAPI):  # type: ignore[misc]  # it is not typed
    def setup(self, device: str) -> None:
        self.model = Metered()

    def decode_request(self, request: dict[str, str]) -> str:
        return request["item"]

    def predict(self, items: list[str]) -> list[Any]:
        return self.model.predict(items)

    def unbatch(self, answers: list[Any]) -> list[Any]:
        return answers

    def encode_response(self, answer: Any) -> dict[str, Any]:
        return {"answer": answer}


if __name__ == "__main__":
    api = Model(max_batch_size=kind().max_batch_size, batch_timeout=WAIT_S, api_path="/")
    litserve.LitServer(api, accelerator="cpu", workers_per_device=1).run(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
        access_log=False,
    )
