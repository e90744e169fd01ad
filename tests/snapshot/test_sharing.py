from pathlib import Path
from typing import Any

import pytest
import torch

import snapshot
from snapshot import sharing


class Model(torch.nn.Module):
    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = torch.nn.Embedding(100, 16)
        self.head = torch.nn.Linear(16, 100, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.full((16,), float("nan")))
        self.half = self.embedding.weight.detach()[:50]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(x))


def files_mapped(folder: Path, tensor: torch.Tensor) -> bool:
    address = tensor.data_ptr()
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, _, end = line.split()[0].partition("-")
        if int(begin, 16) <= address < int(end, 16):
            return str(folder) in line
    return False


@pytest.fixture
def mapped(tmp_path: Path) -> Any:
    snapshot.freeze(sharing.of({"model": Model()}), tmp_path / "s")
    return snapshot.thaw(tmp_path / "s").state


def test_tensors_are_exchanged_and_stay_what_they_are(mapped: Any, tmp_path: Path) -> None:
    state = {"model": Model()}
    model = state["model"]
    parameters = list(model.parameters())
    before = model(torch.arange(5))
    assert sharing.share(state, mapped) == 100 * 16 * 4 + 16 * 4
    assert all(one is other for one, other in zip(model.parameters(), parameters, strict=True))
    assert files_mapped(tmp_path, model.head.weight)
    assert files_mapped(tmp_path, model.scale)
    assert torch.equal(model(torch.arange(5)), before)


def test_tied_and_sliced_tensors_stay_so(mapped: Any) -> None:
    state = {"model": Model()}
    sharing.share(state, mapped)
    model = state["model"]
    with torch.no_grad():
        model.head.weight[3] = 7
    assert torch.all(model.embedding.weight[3] == 7)
    assert torch.all(model.half[3] == 7)


def test_what_differs_stays_this_processs_own(mapped: Any, tmp_path: Path) -> None:
    state = {"model": Model(seed=1)}
    expected = state["model"].embedding.weight.clone()
    assert sharing.share(state, mapped) == 16 * 4
    assert torch.equal(state["model"].embedding.weight, expected)
    assert not files_mapped(tmp_path, state["model"].embedding.weight)


def test_what_was_tied_when_it_was_frozen_and_is_apart_now_stays_apart(tmp_path: Path) -> None:
    one = torch.ones(8)
    snapshot.freeze(sharing.of([one, one[:]]), tmp_path / "s")
    state = [torch.ones(8), torch.ones(8)]
    assert sharing.share(state, snapshot.thaw(tmp_path / "s").state) == 8 * 4
    state[0][0] = 5
    assert state[1][0] == 1


def test_a_memory_of_which_one_tensor_is_new_stays_whole(mapped: Any) -> None:
    state: dict[str, Any] = {"model": Model()}
    state["row"] = state["model"].embedding.weight.detach()[0]
    assert sharing.share(state, mapped) == 16 * 4
    with torch.no_grad():
        state["row"][:] = 7
    assert torch.all(state["model"].head.weight[0] == 7)


def test_what_is_no_plain_tensor_on_the_cpu_is_left_alone() -> None:
    state = [torch.empty(3, device="meta"), torch.eye(3).to_sparse(), torch.empty(0), torch.ones(2), "text"]
    assert list(sharing.of(state)) == ["3"]
