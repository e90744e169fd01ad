"""The handler of `handlers.embed` by BentoML, one worker."""

import sys

import bentoml

from benchmarks.functions.plain import PlainEmbed


@bentoml.service(workers=1)
class Embed:
    def __init__(self) -> None:
        self.embedder = PlainEmbed()
        self.embedder.setup()

    @bentoml.api(route="/embed")  # type: ignore[untyped-decorator]
    def embed(self, text: str) -> list[float]:
        vectors: list[list[float]] = self.embedder.predict([text])
        return vectors[0]


if __name__ == "__main__":
    from bentoml_cli.cli import cli

    cli(["serve", "benchmarks.peers.bento_embed:Embed", "--host", "127.0.0.1", "--port", sys.argv[1]])
