import copyreg
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


class Counted(nn.Linear):
    """Comes back by torch's own way through its own."""

    num_set = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        Counted.num_set += 1


class Registered(nn.Linear):
    """One for which the program says how it is pickled."""


class Narrowed(nn.Linear):
    """Keeps a part of its attributes, as those of an older torch have."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_forward_pre_hooks"}


@torch.no_grad()
def test_a_module_has_the_attributes_it_had(roundtrip: Roundtrip) -> None:
    module = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)).eval()
    module.label = "two"
    back = roundtrip(module)
    assert vars(back).keys() == vars(module).keys()
    assert (back.label, back.training, back[1].training) == ("two", False, False)
    assert back[0].weight is back.get_parameter("0.weight")
    x = torch.randn(3, 8)
    assert torch.equal(back(x), module(x))
    handle = back.register_forward_pre_hook(lambda _, args: (args[0] * 2,))
    assert not torch.equal(back(x), module(x))
    handle.remove()
    assert torch.equal(back.train()(x), module.train()(x))


def test_one_that_says_how_its_state_is_set_sets_it(roundtrip: Roundtrip) -> None:
    before = Counted.num_set
    back = roundtrip(Counted(2, 2))
    assert Counted.num_set == before + 1
    assert back.weight.shape == (2, 2)


def test_what_an_older_torch_lacks_is_still_added(roundtrip: Roundtrip) -> None:
    back = roundtrip(Narrowed(2, 2))
    assert back._forward_pre_hooks == {}


def test_the_programs_own_way_to_pickle_a_class_is_taken(roundtrip: Roundtrip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(copyreg.dispatch_table, Registered, lambda one: (Registered, (one.in_features, 3)))
    assert roundtrip(Registered(2, 2)).out_features == 3
