"""The order in which a model's tensors are wanted, told from their names alone."""

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"(\d+)")
_EMBEDDING = re.compile(r"embed|wte|wpe", re.IGNORECASE)

_FIRST, _LAYERS, _LAST = 0, 1, 2


def load_order(names: Iterable[str]) -> list[str]:
    """Embeddings, then the numbered layers with layer 10 after layer 9, then what follows them (norm, head)."""
    return sorted(names, key=_key)


def _key(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    parts = _NUMBER.split(name)
    # Numbers and words never meet in a comparison: each part says first which of them it is. Of two numbers the one of
    # more digits is the larger: any length can be compared so, of which int() refuses long ones.
    natural = [(0, len(part.lstrip("0")), part.lstrip("0")) if part.isdecimal() else (1, 0, part) for part in parts]
    if len(parts) > 1:
        return _LAYERS, natural
    return (_FIRST if _EMBEDDING.search(name) else _LAST), natural
