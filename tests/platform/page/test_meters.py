import asyncio

import pytest

from faas.metrics import Metrics
from faas.platform.page import meters as module
from faas.platform.page.meters import EVERY_S, Meters, Reading, add, parse, read_metrics


def exposed(*sizes, depth=0):
    metrics = Metrics("f", "1")
    for size in sizes:
        metrics.batch_size.observe(size)
        metrics.request_s.observe(0.003)
    metrics.queue_depth = lambda: depth
    return metrics.expose().decode()


def test_an_instances_own_metrics_are_understood():
    reading = parse(exposed(1, 3, 4, 5000, depth=7))
    sizes = {bound: count for bound, count in reading.histograms["batch_size"].items() if count}
    assert sizes == {"1.0": 1, "4.0": 2, "+Inf": 1}
    assert reading.histograms["request_s"]["0.005"] == 4
    assert reading.gauges["queue_depth"] == 7
    assert reading.gauges["resident_bytes"] > 0
    assert set(reading.histograms) == {"request_s", "queue_s", "exec_s", "batch_size"}


def test_what_is_none_is_refused():
    with pytest.raises(ValueError, match=r".+"):
        parse("<html>")


def test_sums():
    one, other = Reading({"a": {"1": 1.0, "2": 2.0}}), Reading({"a": {"2": 3.0}, "b": {"1": 1.0}})
    assert add([one, other]) == {"a": {"1": 1.0, "2": 5.0}, "b": {"1": 1.0}}


class Instances:
    """Reads nothing but counts, and a clock."""

    def __init__(self):
        self.now = 0.0
        self.asked = []
        self.changed = asyncio.Event()
        self.meters = Meters(read=self.read, clock=lambda: self.now, changed=self.changed.set)

    async def read(self, address):
        self.asked.append(address)
        if address == "deaf":
            raise TimeoutError
        return exposed(*[1] * int(address))

    async def look(self, addresses, seen):
        self.changed.clear()
        due_s = self.meters.look("f", addresses, seen)
        if self.meters._meters["f"].task is not None:
            await self.changed.wait()
        return due_s


def batches(meters):
    return sum(meters.summary("f")["histograms"].get("batch_size", {}).values())


async def test_instances_are_read_when_due_and_only_after_something_happened():
    at = Instances()
    await at.look({"i": "1"}, seen=1)
    assert at.asked == ["1"]
    at.now += 2 * EVERY_S
    assert await at.look({"i": "1"}, seen=1) is None
    assert at.asked == ["1"]
    await at.look({"i": "2"}, seen=2)
    assert batches(at.meters) == 2
    at.now += 0.5
    assert await at.look({"i": "3"}, seen=3) == EVERY_S - 0.5
    assert at.asked == ["1", "2"]


async def test_counts_of_instances_that_are_gone_stay():
    at = Instances()
    await at.look({"i": "2", "j": "3"}, seen=1)
    assert batches(at.meters) == 5
    at.now += EVERY_S
    await at.look({"k": "4"}, seen=2)
    assert batches(at.meters) == 9
    assert set(at.meters.summary("f")["instances"]) == {"k"}
    await at.look({}, seen=3)
    assert batches(at.meters) == 9


async def test_an_instance_that_does_not_answer_keeps_no_other_from_it_and_is_asked_again():
    at = Instances()
    await at.look({"i": "deaf", "j": "3"}, seen=1)
    assert batches(at.meters) == 3
    at.now += EVERY_S
    await at.look({"i": "1", "j": "3"}, seen=1)
    assert batches(at.meters) == 4


async def test_few_functions_are_kept(monkeypatch):
    monkeypatch.setattr(module, "NUM_FUNCTIONS", 2)
    at = Instances()
    for name in "abc":
        at.meters.look(name, {}, 0)
    assert list(at.meters._meters) == ["b", "c"]


async def served(path, answer):
    async def talk(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    return await asyncio.start_unix_server(talk, path)


@pytest.mark.parametrize(
    ("answer", "text"),
    [(b"HTTP/1.1 200 OK\r\na: b\r\n\r\nmetrics", "metrics"), (b"HTTP/1.1 404 No\r\n\r\nx", None), (b"", None)],
)
async def test_over_a_socket(tmp_path, answer, text):
    path = str(tmp_path / "s")
    async with await served(path, answer):
        if text is None:
            with pytest.raises(OSError, match="does not answer"):
                await read_metrics(path)
        else:
            assert await read_metrics(path) == text
    with pytest.raises(OSError, match=r".+"):
        await read_metrics(str(tmp_path / "nobody"))
