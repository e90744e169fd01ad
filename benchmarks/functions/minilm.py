"""The encoder of all-MiniLM-L6-v2 written with torch alone, as a class of the user's own would be."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file

NUM_LAYERS = 6
_WIDTH, _NUM_HEADS, _INNER_WIDTH = 384, 12, 1536
_NUM_WORDS, _NUM_PLACES, _EPSILON = 30522, 512, 1e-12


class MiniLM(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into
    """BERT of six layers, or of the first few of them. Called as transformers' is."""

    def __init__(self, num_layers: int = NUM_LAYERS) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(_NUM_WORDS, _WIDTH)
        self.places = torch.nn.Embedding(_NUM_PLACES, _WIDTH)
        self.kinds = torch.nn.Embedding(2, _WIDTH)
        self.norm = torch.nn.LayerNorm(_WIDTH, eps=_EPSILON)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(
                _WIDTH, _NUM_HEADS, _INNER_WIDTH, 0.0, "gelu", layer_norm_eps=_EPSILON, batch_first=True
            )
            for _ in range(num_layers)
        )

    def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        places = torch.arange(ids.shape[1], device=ids.device)
        hidden = self.norm(self.words(ids) + self.places(places) + self.kinds(torch.zeros_like(ids)))
        for layer in self.layers:
            hidden = layer(hidden, src_key_padding_mask=attention_mask == 0)
        return SimpleNamespace(last_hidden_state=hidden)


def load(folder: Path, num_layers: int = NUM_LAYERS) -> MiniLM:
    """Return the encoder with the weights that lie in a folder of transformers'."""
    model = MiniLM(num_layers)
    model.load_state_dict(_renamed(load_file(folder / "model.safetensors"), num_layers))
    return model


def _renamed(theirs: dict[str, torch.Tensor], num_layers: int) -> dict[str, torch.Tensor]:
    ours = {
        f"{name}.weight": theirs[f"embeddings.{kind}_embeddings.weight"]
        for name, kind in (("words", "word"), ("places", "position"), ("kinds", "token_type"))
    }
    names = {"norm": "embeddings.LayerNorm"}
    for number in range(num_layers):
        layer, of = f"layers.{number}", f"encoder.layer.{number}"
        names |= {
            f"{layer}.self_attn.out_proj": f"{of}.attention.output.dense",
            f"{layer}.norm1": f"{of}.attention.output.LayerNorm",
            f"{layer}.linear1": f"{of}.intermediate.dense",
            f"{layer}.linear2": f"{of}.output.dense",
            f"{layer}.norm2": f"{of}.output.LayerNorm",
        }
        for part in ("weight", "bias"):
            three = [theirs[f"{of}.attention.self.{name}.{part}"] for name in ("query", "key", "value")]
            ours[f"{layer}.self_attn.in_proj_{part}"] = torch.cat(three)
    return ours | {
        f"{our}.{part}": theirs[f"{their}.{part}"] for our, their in names.items() for part in ("weight", "bias")
    }
