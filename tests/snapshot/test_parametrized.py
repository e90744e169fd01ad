from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, weight_norm

Roundtrip = Callable[[Any], Any]


class Symmetric(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.triu() + x.triu(1).transpose(-1, -2)


def symmetric() -> nn.Module:
    module = nn.Linear(8, 8)
    parametrize.register_parametrization(module, "weight", Symmetric())
    return module


def both() -> nn.Module:
    module = parametrizations.weight_norm(nn.Linear(8, 8))
    parametrize.register_parametrization(module, "bias", nn.Softplus(), unsafe=True)
    return module


MODULES: dict[str, Callable[[], nn.Module]] = {
    "one of the user's": symmetric,
    "two tensors": both,
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(8, 8)),
    "orthogonal": lambda: parametrizations.orthogonal(nn.Linear(8, 8)),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(8, 8)).eval(),
    "inside another": lambda: nn.Sequential(symmetric(), nn.ReLU(), both()),
}


@pytest.mark.parametrize("which", MODULES)
@torch.no_grad()
def test_a_parametrised_module_answers_as_before(roundtrip: Roundtrip, which: str) -> None:
    module = MODULES[which]()
    x = torch.randn(3, 8)
    back = roundtrip({"module": module})["module"]
    assert torch.equal(back(x), module(x))
    assert type(back).__name__ == type(module).__name__
    assert list(back.state_dict()) == list(module.state_dict())


def test_it_can_still_be_changed_and_frozen_again(roundtrip: Roundtrip) -> None:
    back = roundtrip(roundtrip(symmetric()))
    with torch.no_grad():
        back.parametrizations.weight.original.fill_(2.0)
    assert torch.equal(back.weight, torch.full((8, 8), 2.0))
    parametrize.remove_parametrizations(back, "weight")
    assert type(back) is nn.Linear
    assert isinstance(back.weight, nn.Parameter)


def test_the_older_weight_norm_answers_as_before(roundtrip: Roundtrip) -> None:
    with pytest.warns(FutureWarning, match="weight_norm"):
        module = weight_norm(nn.Linear(8, 8))
    x = torch.randn(3, 8)
    assert torch.equal(roundtrip(module)(x), module(x))
