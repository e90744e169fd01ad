"""Names: from what users write to what hosts, paths and clusters accept; and the nearest right one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from faas.errors import SettingError

MAX_LENGTH = 63
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_BETWEEN_WORDS = re.compile(r"[^a-z0-9]+")


def label(name: str) -> str:
    """Return `name` as a DNS-1123 label that starts with a letter: `MyModel.v2` becomes `mymodel-v2`.

    Raises:
        SettingError: nothing of `name` can stand in a label, or the result is longer than 63 characters.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    cleaned = _BETWEEN_WORDS.sub("-", plain.lower()).strip("-")
    if cleaned and cleaned[0].isdigit():
        cleaned = f"f-{cleaned}"
    if not cleaned or len(cleaned) > MAX_LENGTH:
        raise SettingError(
            f"{name!r} gives no valid function name: use 1 to {MAX_LENGTH} letters, digits and dashes; set name=..."
        )
    return cleaned


def is_label(name: str) -> bool:
    """Tell whether `name` is already a label as `label` makes them."""
    return len(name) <= MAX_LENGTH and _LABEL.fullmatch(name) is not None


def suggestion(wrong: str, right: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)`, or an empty string where nothing in `right` is near."""
    import difflib  # nothing to who makes no mistake

    by_lower = {name.lower(): name for name in right}
    near = difflib.get_close_matches(wrong.lower(), by_lower, n=1, cutoff=0.6)
    return f" (did you mean {by_lower[near[0]]!r}?)" if near else ""
