"""Options that are written NAME=VALUE and may be given several times."""

from __future__ import annotations

from collections.abc import Iterable

from faas.cli.failure import CALL_WAS_WRONG, Failure


def read(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Return what an option was given, by name; of equal names the last one counts. Raises Failure."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise Failure(f"{option} {name}: has no value", f"write {option} NAME=VALUE", CALL_WAS_WRONG)
        found[name] = value
    return found
