"""The tokenizer in a GGUF file's metadata, as the files that transformers and tokenizers open."""

import json
from collections.abc import Mapping
from typing import Any

_PREFIX = "tokenizer.ggml."
_BYTE_PAIRS = "gpt2"
_CONTROL, _USER_DEFINED = 3, 4
_ROLES = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
_LIST_KEYS = ("tokens", "scores", "token_type", "merges")

_BYTES: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"


def _split(digits: str) -> dict[str, Any]:
    pattern = f"{_CONTRACTIONS}|{_WORDS}|{digits}|{_REST}"
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, {**_BYTES, "use_regex": False}]}


# How text is cut before pairs are merged, by ggml's name for it.
_CUTS: dict[str, dict[str, Any]] = {
    "gpt-2": _BYTES,
    "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, _BYTES]},
    "llama-bpe": _split(r"\p{N}{1,3}"),
    "qwen2": _split(r"\p{N}"),
}
_NORMALIZERS = {"qwen2": {"type": "NFC"}}

Files = dict[str, bytes]


def files_of(metadata: Mapping[str, Any]) -> tuple[Files, list[str]]:
    """Tokenizer and generation files by name, and notes where there is none that can be written."""
    values = {key.removeprefix(_PREFIX): value for key, value in metadata.items() if key.startswith(_PREFIX)}
    token_ids = {name: values[f"{name}_token_id"] for name in _ROLES if f"{name}_token_id" in values}
    files = {
        # All that a file says and nothing else keeps: names, licence, sizes.
        "gguf.json": _json({key: value for key, value in metadata.items() if key.rpartition(".")[2] not in _LIST_KEYS}),
        "generation_config.json": _json(
            {
                _ROLES[name].replace("_token", "_token_id"): number
                for name, number in token_ids.items()
                if name != "unknown"
            }
        ),
    }
    kind, cut = values.get("model"), values.get("pre", "gpt-2")
    if kind is None:
        return files, ["the file holds no tokenizer"]
    if kind != _BYTE_PAIRS or cut not in _CUTS:
        return files, [
            f"no tokenizer files were made: one of the kind {kind}/{cut} is not known here; take the model's own"
        ]
    tokens, merges = values.get("tokens", []), values.get("merges", [])
    if not tokens or not merges:
        return files, ["no tokenizer files were made: the file holds no tokens, or no merges"]
    special = {name: tokens[number] for name, number in token_ids.items() if 0 <= number < len(tokens)}
    files["tokenizer.json"] = _json(_tokenizer(values, cut))
    files["tokenizer_config.json"] = _json(
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "model_max_length": metadata.get("llama.context_length"),
            **{_ROLES[name]: token for name, token in special.items()},
            **({"chat_template": metadata["tokenizer.chat_template"]} if "tokenizer.chat_template" in metadata else {}),
        }
    )
    return files, []


def _tokenizer(values: Mapping[str, Any], cut: str) -> dict[str, Any]:
    """The document that the tokenizers library reads."""
    tokens: list[str] = values["tokens"]
    kinds: list[int] = values.get("token_type") or []
    added = [
        {
            "id": number, "content": tokens[number], "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": kind == _CONTROL,
        }
        for number, kind in enumerate(kinds[: len(tokens)])
        if kind in (_CONTROL, _USER_DEFINED)
    ]  # fmt: skip
    begin = values.get("bos_token_id") if values.get("add_bos_token") else None
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": _NORMALIZERS.get(cut),
        "pre_tokenizer": _CUTS[cut],
        "post_processor": _begin_with(tokens[begin], begin) if begin is not None else None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": cut == "llama-bpe",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": values["merges"],
        },
    }  # fmt: skip


def _begin_with(token: str, number: int) -> dict[str, Any]:
    text = [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    more = [{"SpecialToken": {"id": token, "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}]
    known = {token: {"id": token, "ids": [number], "tokens": [token]}}
    return {"type": "TemplateProcessing", "single": text, "pair": text + more, "special_tokens": known}


def _json(document: object) -> bytes:
    # Escaped, since tokens may be no text at all.
    return json.dumps(document, indent=1).encode()
