"""Whose answers can be kept and given again."""

from __future__ import annotations

from collections.abc import Mapping

from faas.errors import SettingError
from faas.schema import Signature
from faas.spec import FunctionSpec


def reason_against(signature: Signature) -> str | None:
    """Return why an endpoint's answers cannot be given again for equal inputs; None where they can."""
    if signature.streams:
        return "its answers are streams"
    if signature.context is not None:
        return "it takes a Context, so an answer may depend on more than the input"
    return None


def check(spec: FunctionSpec, title: str, signatures: Mapping[str, Signature]) -> None:
    """Refuse a cache where no endpoint has answers to keep.

    Raises:
        SettingError: says why, and what to do.
    """
    if spec.cache is None:
        return
    if spec.batching is not None and spec.batching.sequences is not None:
        raise SettingError(f"{title}: an answer in a sequence depends on what came before it; drop cache or sequences")
    if spec.batching is not None and spec.batching.preserve_order:
        raise SettingError(
            f"{title}: a kept answer would overtake those that are computed; drop cache or preserve_order"
        )
    reasons = {name: reason_against(signature) for name, signature in signatures.items()}
    if all(reasons.values()):
        name, reason = next(iter(reasons.items()))
        raise SettingError(f"{title}: cache= has nothing to keep of {name}: {reason}; drop cache")
