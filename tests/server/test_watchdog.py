from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from faas import inference_function
from faas.server import serve as life
from faas.server import watchdog
from faas.server.watchdog import Watchdog

pytestmark = pytest.mark.anyio


class Records(logging.Handler):
    """Keeps what is logged, and tells when it matches."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.found = threading.Event()
        self._wanted = wanted

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())
        if self._wanted in self.seen[-1]:
            self.found.set()


@pytest.fixture
def blocked_log():
    records = Records("block_until")
    watchdog.logger.addHandler(records)
    yield records
    watchdog.logger.removeHandler(records)


def block_until(found: threading.Event) -> None:
    assert found.wait(20)


async def test_the_frame_that_blocks_is_logged_once(blocked_log):
    lags: list[float] = []
    dog = Watchdog(lags.append, every_s=0.01, blocked_s=0.05)
    dog.start()
    try:
        while not lags:
            await asyncio.sleep(0.005)
        assert not blocked_log.found.is_set()
        before, earlier = len(lags), len(blocked_log.seen)
        block_until(blocked_log.found)
        while len(lags) <= before + 1:
            await asyncio.sleep(0.005)
    finally:
        dog.close()
    blocked = [message for message in blocked_log.seen[earlier:] if "is blocked" in message]
    assert len(blocked) == 1
    assert "block_until" in blocked[0]
    assert any("was blocked for" in message for message in blocked_log.seen)
    assert max(lags) >= 0.05


async def test_an_async_handler_that_blocks_is_named(serving, blocked_log, monkeypatch):
    monkeypatch.setattr(life, "Watchdog", lambda lag: Watchdog(lag, every_s=0.01, blocked_s=0.05))

    @inference_function
    async def sleeps() -> int:
        block_until(blocked_log.found)
        return 1

    async with serving(sleeps) as served:
        assert (await served.client.post("/")).json() == 1
        assert "block_until" in "".join(blocked_log.seen)
        assert await served.value("faas_loop_lag_seconds") >= 0


async def test_closing_does_not_wait_for_the_next_round():
    dog = Watchdog(lambda lag: None, every_s=600)
    dog.start()
    began = time.monotonic()
    dog.close()
    assert time.monotonic() - began < 60
    assert not any(thread.name == "watchdog" for thread in threading.enumerate())
