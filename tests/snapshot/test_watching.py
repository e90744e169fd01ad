import collections
import pickle
from typing import Any

import pytest
import torch

from snapshot.reducers import set_attributes
from snapshot.watching import Watching, is_inert


class Plain:
    pass


class Looks:
    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class Made:
    def __new__(cls) -> "Made":
        return super().__new__(cls)


class Taken:
    def __reduce__(self) -> tuple[Any, ...]:
        return list, ()


class Keyed:
    def __hash__(self) -> int:
        return 1


class Slotted:
    __slots__ = ("weight",)


class Module(torch.nn.Module):
    pass


class LookingModule(torch.nn.Module):
    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)


INERT = [Plain, Module, torch.nn.Linear, torch.nn.Conv2d, collections.OrderedDict, torch.device, torch.float32, 3]
INERT += [torch.nn.functional.gelu, torch.nn.functional.relu, set_attributes]
LOOKING = [Looks, Made, Taken, Keyed, Slotted, LookingModule, list, type, getattr, len, torch.sum, pickle.loads]
LOOKING += [lambda: None, torch._utils._rebuild_sparse_tensor, Looks().__setstate__]


def named(found: object) -> str:
    return str(getattr(found, "__qualname__", type(found).__qualname__))


@pytest.mark.parametrize("found", INERT, ids=named)
def test_what_cannot_look_is_inert(found: object) -> None:
    assert is_inert(found)


@pytest.mark.parametrize("found", LOOKING, ids=named)
def test_what_could_look_is_not(found: object) -> None:
    assert not is_inert(found)


def test_tensors_are_given_early_until_something_could_look() -> None:
    waited: list[int] = []
    watching = Watching(waited.append)
    watching.named(Plain)
    watching.taken(2)
    watching.taken(0)
    assert waited == []
    watching.named(Looks)
    assert waited == [0, 2]
    watching.named(Plain)
    watching.taken(5)
    assert waited == [0, 2, 5]
