"""Exp3: one variant answers, drawn by its share; its loss is counted as if it had been drawn always.

P. Auer, N. Cesa-Bianchi, Y. Freund, R. Schapire, "The nonstochastic multiarmed bandit problem", 2002: s_i *=
exp(-eta * L / p_i) for the one that answered, with probability p_i and loss L in [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping

from faas.engine.selection.weights import Logs


def drawn(shares: Mapping[str, float], point: float) -> str:
    """Return the variant at `point`, uniform in [0, 1), of the shares laid end to end."""
    name = ""
    for name, share in shares.items():  # noqa: B007, the last one is what rounding may leave
        point -= share
        if point < 0.0:
            break
    return name


def change(name: str, loss: float, probability: float, eta: float) -> Logs:
    """Return what is to be added to the logarithms after `name`, drawn with `probability`, had `loss` in [0, 1]."""
    return {name: -eta * loss / probability}
