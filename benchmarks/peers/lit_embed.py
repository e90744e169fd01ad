"""The handler of `handlers.embed` by LitServe, one worker."""

import sys
from typing import Any

import litserve

from benchmarks.functions.plain import PlainEmbed


class Embed(litserve.LitAPI):  # type: ignore[misc]  # it is not typed
    def setup(self, device: str) -> None:
        self.embed = PlainEmbed()
        self.embed.setup()

    def decode_request(self, request: dict[str, str]) -> str:
        return request["text"]

    def predict(self, text: str) -> list[float]:
        vectors: list[list[float]] = self.embed.predict([text])
        return vectors[0]

    def encode_response(self, vector: list[float]) -> dict[str, Any]:
        return {"vector": vector}


if __name__ == "__main__":
    litserve.LitServer(Embed(api_path="/"), accelerator="cpu", workers_per_device=1).run(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
        access_log=False,
    )
