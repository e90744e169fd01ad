"""One of `models` by BentoML, one worker. How long it gathers it finds by itself, below the SLO that it is told."""

import sys
from typing import Any

import bentoml

from benchmarks.peers.models import Metered, kind

KIND = kind()


@bentoml.service(workers=1, traffic={"timeout": 60, "max_concurrency": 10_000})
class Model:
    def __init__(self) -> None:
        self.model = Metered()

    @bentoml.api(  # type: ignore[untyped-decorator]
        route="/predict", batchable=True, max_batch_size=KIND.max_batch_size, max_latency_ms=KIND.slo_ms
    )
    def predict(self, items: list[str]) -> list[Any]:
        return self.model.predict(items)


if __name__ == "__main__":
    from bentoml_cli.cli import cli

    cli(["serve", "benchmarks.peers.bento_model:Model", "--host", "127.0.0.1", "--port", sys.argv[1]])
