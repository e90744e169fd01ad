"""Llama and its like (Mistral, SmolLM): ggml's names and metadata, and what transformers calls the same."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snapshot.errors import BadHeaderError, ImportRefused
from snapshot.imports.gguf_header import GgufHeader
from snapshot.imports.incoming import listed

_ARCHITECTURE = "llama"
# Positions that are scaled, as a table; a configuration says it in words.
_SCALED_POSITIONS = "rope_freqs.weight"
_OUTER = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NAME = re.compile(r"(?:blk\.(?P<layer>\d{1,9})\.)?(?P<part>\w+)\.(?P<kind>weight|bias)")
# Member of transformers' LlamaConfig -> key below `llama.`
_CONFIG = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
_TOKEN_IDS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
_DEFAULT_ROPE_BASE = 10000.0


@dataclass(frozen=True, eq=False)
class Llama:
    """names: ggml's name of a tensor -> transformers'; aliases: a tied head -> the embeddings."""

    config: dict[str, Any]
    names: Mapping[str, str]
    aliases: Mapping[str, str]
    notes: tuple[str, ...]

    def rows_of(self, stored: str) -> Any:
        """The order of a tensor's rows, as an array of their numbers; None where it is that of the file.

        Ggml rotates neighbouring rows of queries and keys, transformers rows that are half a head apart.
        """
        heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}
        part = stored.split(".")[-2]
        if part not in heads:
            return None
        import numpy as np  # the way of this format alone

        num_heads, head_dim = self.config[heads[part]], self.config["head_dim"]
        return np.arange(num_heads * head_dim).reshape(num_heads, head_dim // 2, 2).swapaxes(1, 2).reshape(-1)


def read(path: Path, header: GgufHeader) -> Llama:
    """Raises ImportRefused for another architecture and for tensors missing or unknown, BadHeaderError for nonsense."""
    if (num_files := header.metadata.get("split.count", 1)) != 1:
        raise ImportRefused(
            f"{path} is one of {num_files} files of a model",
            "put them together (llama-gguf-split --merge FIRST MERGED), and import that",
        )
    architecture = header.metadata.get("general.architecture")
    if architecture != _ARCHITECTURE or header.metadata.get("llama.expert_count"):
        kind = architecture if architecture != _ARCHITECTURE else "llama with experts"
        raise ImportRefused(
            f"{path} is a model of the architecture {kind!r}, and of GGUF files those of llama alone are imported",
            "import the model's safetensors folder instead",
        )
    names = _names(path, header)
    config = _config(path, header)
    config["tie_word_embeddings"] = "output.weight" not in names
    config["attention_bias"] = "blk.0.attn_q.bias" in names
    config["mlp_bias"] = "blk.0.ffn_up.bias" in names
    _check(path, header, config)
    notes = []
    if _SCALED_POSITIONS in header.tensors:
        notes.append(f"left out: {_SCALED_POSITIONS}; say how positions are scaled in rope_parameters of the config")
    aliases = {"lm_head.weight": "model.embed_tokens.weight"} if config["tie_word_embeddings"] else {}
    return Llama(config, names, aliases, tuple(notes))


def _names(path: Path, header: GgufHeader) -> dict[str, str]:
    names: dict[str, str] = {}
    unknown = []
    for stored in header.tensors:
        found = _NAME.fullmatch(stored)
        part = found and (_LAYER if found["layer"] else _OUTER).get(found["part"])
        if found and part:
            prefix = f"model.layers.{int(found['layer'])}." if found["layer"] else ""
            names[stored] = f"{prefix}{part}.{found['kind']}"
        elif stored != _SCALED_POSITIONS:
            unknown.append(stored)
    if unknown:
        raise ImportRefused(
            f"{path} holds tensors that a llama does not have: {listed(unknown)}",
            "import the model's safetensors folder instead",
        )
    return names


def _config(path: Path, header: GgufHeader) -> dict[str, Any]:
    values = header.metadata
    if missing := [
        f"llama.{key}" for key in _CONFIG.values() if not isinstance(values.get(f"llama.{key}"), int | float)
    ]:
        raise BadHeaderError(path, f"does not say what the model is: without {listed(missing)}")
    config = {name: values[f"llama.{key}"] for name, key in _CONFIG.items()}
    heads = config["num_attention_heads"]
    if not heads or any(config[name] < 0 for name in config):
        raise BadHeaderError(path, f"gives a model of {heads} heads and {config['hidden_size']} features")
    rope: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": values.get("llama.rope.freq_base", _DEFAULT_ROPE_BASE),
    }
    if (scaling := values.get("llama.rope.scaling.type", "none")) == "linear":
        rope |= {"rope_type": "linear", "factor": values.get("llama.rope.scaling.factor", 1.0)}
    elif scaling != "none":
        raise ImportRefused(
            f"{path} scales positions by {scaling!r}, which is not imported", "import the model's safetensors folder"
        )
    token_ids = {name: values.get(f"tokenizer.ggml.{key}_token_id") for name, key in _TOKEN_IDS.items()}
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        **config,
        "num_key_value_heads": values.get("llama.attention.head_count_kv", heads),
        "head_dim": values.get("llama.rope.dimension_count", config["hidden_size"] // heads),
        "vocab_size": header.tensors["token_embd.weight"].shape[0] if "token_embd.weight" in header.tensors else 0,
        "rope_theta": rope["rope_theta"],
        "rope_parameters": rope,
        **token_ids,
    }


def _check(path: Path, header: GgufHeader, config: Mapping[str, Any]) -> None:
    """Every tensor that the configuration calls for is there, and has the shape that it calls for."""
    missing, wrong = [], []
    for name, shape in _expected(config):
        found = header.tensors.get(name)
        if found is None:
            missing.append(name)
        elif found.shape != shape:
            wrong.append(f"{name!r} is {list(found.shape)} for {list(shape)}")
    if missing:
        raise ImportRefused(f"{path} lacks tensors of its model: {listed(missing)}", "download it again")
    if wrong:
        raise BadHeaderError(path, f"holds tensors of other shapes than its metadata gives: {listed(wrong)}")


def _expected(config: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner = config["hidden_size"], config["intermediate_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    shapes = {
        "attn_norm": (width,), "ffn_norm": (width,), "attn_q": (queries, width), "attn_k": (keys, width),
        "attn_v": (keys, width), "attn_output": (width, queries), "ffn_gate": (inner, width), "ffn_up": (inner, width),
        "ffn_down": (width, inner),
    }  # fmt: skip
    yield "token_embd.weight", (config["vocab_size"], width)
    for layer in range(config["num_hidden_layers"]):
        yield from ((f"blk.{layer}.{part}.weight", shape) for part, shape in shapes.items())
    yield "output_norm.weight", (width,)
