import sys
from types import SimpleNamespace

import pytest

from faas import device


class Recording:
    """Stands for torch and for its tensors, and says what was asked of them."""

    def __init__(self, available: bool) -> None:
        self.asked: list[str] = []
        self.cuda = SimpleNamespace(
            is_available=lambda: available, synchronize=lambda: self.asked.append("synchronize")
        )

    def ones(self, *shape: int, device: str) -> "Recording":
        self.asked.append(f"ones on {device}")
        return self

    def __matmul__(self, other: object) -> "Recording":
        self.asked.append("product")
        return self

    def sum(self) -> None:
        self.asked.append("sum")


@pytest.mark.parametrize(
    ("available", "asked"), [(True, ["ones on cuda", "product", "sum", "synchronize"]), (False, [])]
)
def test_a_context_is_created_where_there_is_a_device(monkeypatch, available, asked):
    torch = Recording(available)
    monkeypatch.setitem(sys.modules, "torch", torch)
    device.create_context()
    assert torch.asked == asked


def test_nothing_is_imported_for_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    device.create_context()
    assert "torch" not in sys.modules
