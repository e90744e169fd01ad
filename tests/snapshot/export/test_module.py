"""Stand-ins, their tensors, and what they are called with; the backend is a fake that returns what it was given."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from snapshot.errors import InputMismatch
from snapshot.export.module import ExportedModule, Signature
from snapshot.export.structure import Structure
from snapshot.export.tensor import Tensor

ARRAY: Structure = ("array", 0)


class Echo:
    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def __call__(self, given: Mapping[str, Any]) -> list[Any]:
        self.given = dict(given)
        return [np.asarray(array, dtype="f4") for array in given.values()]


def stand_in(given: dict[str, Structure], **options: Any) -> ExportedModule:
    names = tuple(name for name in given if name != options.get("variadic"))
    signature = Signature(
        "self.model", names, options.get("variadic"), given, options.get("answer", ARRAY), options.get("defaults", {})
    )
    return ExportedModule(Echo(), signature)


def test_by_place_or_by_name_it_is_the_same_call() -> None:
    model = stand_in({"x": ARRAY, "y": ARRAY}, answer=("tuple", [("array", 0), ("array", 1)]))
    for call in (model([1], [2]), model([1], y=[2]), model(y=[2], x=[1])):
        assert [part.tolist() for part in call] == [[1.0], [2.0]]


def test_tensors_answer_tensors_and_arrays_what_numpy_takes() -> None:
    model = stand_in({"x": ARRAY})
    assert torch.equal(model(torch.tensor([1.0])), torch.tensor([1.0]))
    answer = model(np.array([1.0, 2.0]))
    assert isinstance(answer, Tensor)
    assert np.asarray(answer).tolist() == [1.0, 2.0]
    assert np.asarray(model(answer)).tolist() == [1.0, 2.0]


def test_a_default_spelt_out_is_no_other_call() -> None:
    model = stand_in({"x": ARRAY}, defaults={"mask": None, "scale": 1.0})
    assert model([1], mask=None, scale=1.0).tolist() == [1.0]
    with pytest.raises(TypeError, match="called with x; it is called with x, scale"):
        model([1], scale=2.0)


def test_constants_must_be_as_they_were() -> None:
    model = stand_in({"x": ARRAY, "mode": ("constant", "mean")})
    assert model([1], mode="mean").tolist() == [1.0]
    with pytest.raises(TypeError, match="mode='mean'; it is called with 'max'"):
        model([1], mode="max")


def test_nested_arguments_are_matched_part_by_part() -> None:
    model = stand_in({"xs": ("list", [ARRAY, ARRAY]), "more": ("dict", {"a": ARRAY})})
    model([[1], [2]], {"a": [3]})
    assert set(model.backend.given) == {"xs.0", "xs.1", "more.a"}  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="2 arrays in xs"):
        model([[1]], {"a": [3]})
    with pytest.raises(TypeError, match="more of the keys a"):
        model([[1], [2]], {"b": [3]})


def test_arguments_without_names_are_matched_too() -> None:
    model = stand_in({"x": ARRAY, "rest": ("list", [ARRAY])}, variadic="rest")
    model([1], [2])
    assert set(model.backend.given) == {"x", "rest.0"}  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="takes 1 arguments by position, 2"):
        stand_in({"x": ARRAY})([1], [2])
    with pytest.raises(TypeError, match="given x twice"):
        stand_in({"x": ARRAY})([1], x=[2])


@pytest.mark.parametrize("given", [None, "text", {"a": 1}])
def test_what_is_no_array_is_refused_by_name(given: object) -> None:
    with pytest.raises(InputMismatch, match="input 'x'"):
        stand_in({"x": ARRAY})(given)


def test_it_is_in_evaluation_mode_and_stays_there() -> None:
    model = stand_in({"x": ARRAY})
    assert model.eval() is model.to("cpu") is model.train(False) is model.requires_grad_(False) is model
    assert not model.training
    with pytest.raises(TypeError, match="cannot be trained"):
        model.train()
    with pytest.raises(AttributeError, match=r"no 'config'.*in setup"):
        _ = model.config


def test_a_tensor_hands_out_its_values_as_torch_would() -> None:
    values = [[1.0, 3.0], [2.0, 0.0]]
    ours, theirs = Tensor(np.array(values, "f4")), torch.tensor(values)
    assert ours.tolist() == theirs.tolist()
    assert (ours.shape, ours.ndim, ours.dim(), ours.numel(), len(ours)) == ((2, 2), 2, 2, 4, 2)
    assert (ours.size(), ours.size(1)) == ((2, 2), 2)
    assert ours[0].tolist() == theirs[0].tolist()
    assert ours[:, None, -1].tolist() == theirs[:, None, -1].tolist()
    assert ours[0, 1].item() == float(ours[0, 1]) == 3.0
    assert int(ours.argmax()) == int(theirs.argmax())
    for options in ({"dim": -1}, {"dim": 0, "keepdim": True}, {"keepdim": True}):
        assert ours.argmax(**options).tolist() == theirs.argmax(**options).tolist()
    assert "abcd"[ours.argmax()] == "abcd"[theirs.argmax()] == "b"
    assert f"{ours[0, 1]:.2f} {ours[0, 1]}" == f"{theirs[0, 1]:.2f} {theirs[0, 1]}" == "3.00 3.0"
    assert ours.numpy(force=True) is ours.numpy()
    assert ours.cpu().detach() is ours
    assert [row.tolist() for row in ours] == values
    for odd in (lambda t: "abcd"[t[0, 0]], lambda t: f"{t:.2f}"):  # a float is no place, a matrix no number
        with pytest.raises(TypeError):
            odd(theirs)
        with pytest.raises(TypeError):
            odd(ours)


def test_what_a_tensor_cannot_do_torch_does() -> None:
    ours, theirs = Tensor(np.array([[1.0, 3.0], [2.0, 0.0]], "f4")), torch.tensor([[1.0, 3.0], [2.0, 0.0]])
    for work in (
        lambda t: t.std(0),
        lambda t: t.max(1).indices,
        lambda t: t.view(4),
        lambda t: 2 * t + torch.ones(2),
        lambda t: torch.ones(2) / (t + 1),
        lambda t: torch.softmax(t, dim=-1),
        lambda t: torch.nn.functional.normalize(t, dim=-1),
        lambda t: torch.cat([t, t]),
        lambda t: t @ t,
        lambda t: t > 1,
        lambda t: t[t > 1],
        lambda t: t[torch.tensor([1, 0])],
    ):
        assert torch.equal(work(ours), work(theirs))
    assert ours.dtype is torch.float32
