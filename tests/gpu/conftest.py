import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that is marked `gpu` runs where torch sees one."""
    if item.get_closest_marker("gpu") is None:
        return
    torch = pytest.importorskip("torch", exc_type=ImportError)
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
