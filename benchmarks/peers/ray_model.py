"""One of `models` by Ray Serve, one replica."""

import signal
import sys
from typing import Any

import ray
from ray import serve
from starlette.requests import Request

from benchmarks.peers.models import WAIT_S, Metered, kind

KIND = kind()


@serve.deployment(num_replicas=1, max_ongoing_requests=10_000)
class Model:
    def __init__(self) -> None:
        self.model = Metered()

    @serve.batch(max_batch_size=KIND.max_batch_size, batch_wait_timeout_s=WAIT_S)  # type: ignore[untyped-decorator]
    async def predict(self, items: list[str]) -> list[Any]:
        return self.model.predict(items)

    async def __call__(self, request: Request) -> Any:
        return await self.predict((await request.json())["item"])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Model.bind())  # type: ignore[attr-defined]
    signal.pause()
