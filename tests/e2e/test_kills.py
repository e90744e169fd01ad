"""kill -9 of an instance, of a zygote, of the platform, while callers call: only what was on the victim fails."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import killing
from benchmarks.killing import Toll

pytestmark = pytest.mark.slow

FEW_AND_MANY = pytest.mark.parametrize("num", [2, pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(400)])])


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="faas-test-") as folder:
        yield Path(folder)


def the_rest_was_served(toll: Toll, num: int) -> None:
    assert len(toll.back_s) == num
    assert toll.late == []
    assert toll.unclear == []
    assert toll.num_calls > len(toll.failed) + len(toll.refused)


@FEW_AND_MANY
def test_of_an_instance(home: Path, num: int) -> None:
    toll = asyncio.run(killing.kill_instances(home, num))
    the_rest_was_served(toll, num)
    assert len(toll.failed) <= num * killing.NUM_CALLERS
    assert toll.refused == []


@FEW_AND_MANY
def test_of_a_zygote(home: Path, num: int) -> None:
    toll = asyncio.run(killing.kill_zygotes(home, num))
    the_rest_was_served(toll, num)
    assert (toll.failed, toll.refused) == ([], [])


@FEW_AND_MANY
def test_of_the_platform(home: Path, num: int) -> None:
    toll = asyncio.run(killing.kill_platforms(home, num))
    the_rest_was_served(toll, num)
    assert len(toll.failed) <= num * killing.NUM_CALLERS
