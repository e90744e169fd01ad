from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from faas import tasks
from faas.deployment import bundling
from faas.errors import NotPrepared

MODULE = "faas.deployment.bundling"


def children() -> set[str]:
    """Return the processes that this one has started."""
    return {pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def test_what_was_started_ahead_and_gets_no_task_is_ended(capfd: pytest.CaptureFixture[str]) -> None:
    async def nothing() -> set[str]:
        before = children()
        async with tasks.ahead(MODULE) as waiting:
            assert waiting.is_waiting
            started = children() - before
        assert not waiting.is_waiting
        return started & children()

    assert asyncio.run(nothing()) == set()
    assert capfd.readouterr().err == ""


def test_what_was_started_ahead_does_one_task(tmp_path: Path) -> None:
    async def fails() -> list[str]:
        said: list[str] = []
        task = bundling.Task(target=str(tmp_path / "none.py"), folder=str(tmp_path / "b"))
        async with tasks.ahead(MODULE) as waiting:
            with pytest.raises(NotPrepared, match="there is no such file"):
                await waiting.run(task, bundling.OUTCOMES, said.append, what="a bundle")
            assert not waiting.is_waiting
        return said

    assert asyncio.run(fails()) == [f"packing {tmp_path / 'none.py'}"]
