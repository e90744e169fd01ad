"""Makes model folders as the hub has them, small."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

Tensors = Mapping[str, torch.Tensor]


def values(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Random values, the same each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def layers(count: int = 3, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """The tensors of a small language model with a tied head."""
    tensors = {"model.embed_tokens.weight": values(10, 4, dtype=dtype, seed=100)}
    for number in range(count):
        tensors[f"model.layers.{number}.proj.weight"] = values(4, 4, dtype=dtype, seed=number)
    return {**tensors, "model.norm.weight": values(4, dtype=dtype, seed=101)}


def write_config(folder: Path, **config: object) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "tiny", **config}))


def write_sharded(folder: Path, shards: Mapping[str, Tensors], weight_map: Mapping[str, str] | None = None) -> None:
    """Shards by file name, and an index: of what they hold, or as given."""
    folder.mkdir(exist_ok=True)
    for file, tensors in shards.items():
        save_file(dict(tensors), folder / file)
    found = {name: file for file, tensors in shards.items() for name in tensors}
    total = sum(tensor.nbytes for tensors in shards.values() for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(found if weight_map is None else weight_map)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def three_shards(folder: Path) -> dict[str, torch.Tensor]:
    """A model of three shards, and what it holds."""
    tensors = layers()
    names = sorted(tensors)
    parts = {f"model-{n + 1:05d}-of-00003.safetensors": {name: tensors[name] for name in names[n::3]} for n in range(3)}
    write_sharded(folder, parts)
    write_config(folder, tie_word_embeddings=True, torch_dtype="float32", text={"dtype": "float32"})
    return tensors
