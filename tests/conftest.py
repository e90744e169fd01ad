"""What one test must not leave to the next."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _gradients_are_on_again() -> Iterator[None]:
    """An instance turns torch's gradients off in the threads that it runs on, the test's among them."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_grad_enabled(True)
