"""The handler of `handlers.embed` without batching: one sentence a call."""

from benchmarks.functions.plain import PlainEmbed
from faas import Calls, inference_function


# Thirty-two callers at once are more than the default queue of a function without batching holds.
@inference_function(name="embed-unbatched", calls=Calls(max_queue=64), warmup=["a sentence to warm up with"])
class Unbatched:
    def setup(self) -> None:
        self.embed = PlainEmbed()
        self.embed.setup()

    def predict(self, sentence: str) -> list[float]:
        vectors: list[list[float]] = self.embed.predict([sentence])
        return vectors[0]
