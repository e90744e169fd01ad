"""What one test must not leave to the next, and what tests of several folders share."""

import os
import sys
from collections.abc import Generator, Iterator

import pytest

from faas import process_settings
from tests.chromium import PATH, Browser


@pytest.fixture(autouse=True)
def _the_process_is_as_it_was() -> Iterator[None]:
    """What a test sets for the whole process would be found by those that happen to run after it, and fail them."""
    settings, environment = process_settings.now(), _environment()
    yield
    assert process_settings.changed_since(settings) == []
    assert _environment() == environment


def _environment() -> dict[str, str]:
    """Return the variables, but for those that pytest and torch set by themselves."""
    theirs = ("PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR")
    return {name: value for name, value in os.environ.items() if name not in theirs}


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
