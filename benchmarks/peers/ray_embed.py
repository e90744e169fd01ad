"""The handler of `handlers.embed` by Ray Serve, one replica."""

import signal
import sys

import ray
from ray import serve
from starlette.requests import Request

from benchmarks.functions.plain import PlainEmbed


@serve.deployment(num_replicas=1)
class Embed:
    def __init__(self) -> None:
        self.embed = PlainEmbed()
        self.embed.setup()

    async def __call__(self, request: Request) -> list[float]:
        vectors: list[list[float]] = self.embed.predict([(await request.json())["text"]])
        return vectors[0]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Embed.bind())  # type: ignore[attr-defined]
    signal.pause()
