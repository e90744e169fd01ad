"""The tokenizer in a GGUF file's metadata, as the files that transformers and tokenizers open."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PREFIX = "tokenizer.ggml."
_BYTE_PAIRS, _SENTENCE_PIECES = "gpt2", "llama"
_UNKNOWN, _CONTROL, _USER_DEFINED, _BYTE = 2, 3, 4, 6
_ROLES = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
_LIST_KEYS = ("tokens", "scores", "token_type", "merges")
_SPACE = "\u2581"

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
Values = Mapping[str, Any]


def files_of(metadata: Values) -> tuple[Files, list[str]]:
    """Tokenizer and generation files by name, and notes where there is none that can be written."""
    values = {key.removeprefix(_PREFIX): value for key, value in metadata.items() if key.startswith(_PREFIX)}
    token_ids = {name: values[f"{name}_token_id"] for name in _ROLES if f"{name}_token_id" in values}
    generation = {_ROLES[name] + "_id": number for name, number in token_ids.items() if name != "unknown"}
    files = {
        # All that a file says and nothing else keeps: names, licence, sizes.
        "gguf.json": _json({key: value for key, value in metadata.items() if key.rpartition(".")[2] not in _LIST_KEYS}),
        "generation_config.json": _json(generation),
    }
    if (reason := _unfit(values)) is not None:
        return files, [f"no tokenizer files were made: {reason}; take the model's own"]
    make = _byte_pairs if values["model"] == _BYTE_PAIRS else _sentence_pieces
    special = {_ROLES[name]: values["tokens"][number] for name, number in token_ids.items()}
    template = metadata.get("tokenizer.chat_template")
    files["tokenizer.json"] = _json(make(values))
    files["tokenizer_config.json"] = _json(
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "model_max_length": metadata.get("llama.context_length"),
            **special,
            **({} if template is None else {"chat_template": template}),
        }
    )
    return files, []


def _unfit(values: Values) -> str | None:
    """Why no tokenizer can be made of what the file says."""
    kind, cut, tokens = values.get("model"), values.get("pre", "gpt-2"), values.get("tokens")
    if kind == _BYTE_PAIRS and cut not in _CUTS:
        return f"text that is cut as {cut!r} is not known here"
    if kind not in (_BYTE_PAIRS, _SENTENCE_PIECES):
        return f"one of the kind {kind!r} is not known here"
    lists = ("merges",) if kind == _BYTE_PAIRS else ("scores", "token_type")
    if not tokens or not all(values.get(name) for name in lists):
        return f"the file lacks tokens, or {' or '.join(lists)}"
    if any(len(values.get(name, tokens)) != len(tokens) for name in ("scores", "token_type")):
        return "the file has not one score and one type for each token"
    numbers = [values[f"{name}_token_id"] for name in _ROLES if f"{name}_token_id" in values]
    return None if all(0 <= number < len(tokens) for number in numbers) else "a special token is none of its tokens"


def _byte_pairs(values: Values) -> dict[str, Any]:
    """A vocabulary over bytes with its merges, as GPT-2 has it."""
    cut = values.get("pre", "gpt-2")
    return _document(
        values,
        normalizer=_NORMALIZERS.get(cut),
        pre_tokenizer=_CUTS[cut],
        decoder={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        model={"merges": values["merges"], "ignore_merges": cut == "llama-bpe"},
        begins=values.get("add_bos_token", False),
    )


def _sentence_pieces(values: Values) -> dict[str, Any]:
    """A vocabulary over characters with scores, as SentencePiece has it; what it lacks is spelt in bytes."""
    begins_with_space = values.get("add_space_prefix", True)
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    prefix = [{"type": "Prepend", "prepend": _SPACE}] if begins_with_space else []
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if begins_with_space else []
    back = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    unknown = values.get("unknown_token_id")
    return _document(
        values,
        normalizer={"type": "Sequence", "normalizers": [*prefix, spaces]},
        pre_tokenizer=None,
        decoder={"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]},
        model={
            "unk_token": None if unknown is None else values["tokens"][unknown],
            "fuse_unk": True,
            "byte_fallback": True,
            "merges": list(_merges(values["tokens"], values["scores"], values["token_type"])),
        },
        begins=values.get("add_bos_token", True),
    )


def _merges(tokens: Sequence[str], scores: Sequence[float], kinds: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Pairs in the order in which SentencePiece joins them: what they make has the higher score."""
    plain = {
        token: score
        for token, score, kind in zip(tokens, scores, kinds, strict=True)
        if kind not in (_UNKNOWN, _CONTROL, _BYTE)
    }
    for token in sorted(plain, key=lambda token: -plain[token]):
        for cut in range(1, len(token)):
            if token[:cut] in plain and token[cut:] in plain:
                yield token[:cut], token[cut:]


def _document(
    values: Values,
    *,
    normalizer: object,
    pre_tokenizer: object,
    decoder: object,
    model: dict[str, Any],
    begins: bool,
) -> dict[str, Any]:
    """What the tokenizers library reads. `model`: what differs from a plain merging of pairs."""
    tokens: list[str] = values["tokens"]
    begin = values.get("bos_token_id") if begins else None
    plain = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
    }  # fmt: skip
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": list(_added(tokens, values.get("token_type", []))),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None if begin is None else _begin_with(tokens[begin], begin),
        "decoder": decoder,
        "model": {**plain, "vocab": {token: number for number, token in enumerate(tokens)}, **model},
    }


def _added(tokens: Sequence[str], kinds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Tokens that are found in text as they are, before it is cut."""
    for number, kind in enumerate(kinds):
        if kind in (_UNKNOWN, _CONTROL, _USER_DEFINED):
            yield {
                "id": number, "content": tokens[number], "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": kind != _USER_DEFINED,
            }  # fmt: skip


def _begin_with(token: str, number: int) -> dict[str, Any]:
    text = [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    more = [{"SpecialToken": {"id": token, "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}]
    known = {token: {"id": token, "ids": [number], "tokens": [token]}}
    return {"type": "TemplateProcessing", "single": text, "pair": text + more, "special_tokens": known}


def _json(document: object) -> bytes:
    # Escaped, since tokens may be no text at all.
    return json.dumps(document, indent=1).encode()
