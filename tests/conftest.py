"""What one test must not leave to the next, and what tests of several folders share."""

import sys
from collections.abc import Generator, Iterator

import pytest

from tests.chromium import PATH, Browser


@pytest.fixture(autouse=True)
def _gradients_are_on_again() -> Iterator[None]:
    """An instance turns torch's gradients off in the threads that it runs on, the test's among them."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_grad_enabled(True)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium, ended with the module's tests; they are skipped where there is none."""
    if PATH is None:
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    made = Browser(tmp_path_factory.mktemp("chromium"))
    try:
        yield made
    finally:
        made.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have what a test logged fit to be sent to the process that collects it: some log what is no text."""
    report = yield
    report.sections = [(title, said.encode("utf-8", "replace").decode()) for title, said in report.sections]
    return report
