from __future__ import annotations

import asyncio
import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import snapshot
from faas import Batching, inference_function, times
from faas.function import Function
from faas.instance_messages import Revision
from faas.messages import Call, Context
from faas.revision import Loaded
from faas.times import Times


def promised() -> Function:
    @inference_function(batching=Batching(max_batch_size=8, slo_ms=100))
    def embed(texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    return embed  # type: ignore[no-any-return]


def as_it_is(size: int) -> int:
    return size


def seen(folder: Path, function: Function, seconds: float = 0.010, *, num: int = 40) -> Times:
    """The times of an instance that computed `num` batches of 4."""
    made = Times(function)
    made.read(folder)
    model = made.model("/", "", as_it_is)
    for _ in range(num):
        model.observe(4, seconds)
    return made


def known_at_four(folder: Path, function: Function) -> float | None:
    made = Times(function)
    made.read(folder)
    model = made.model("/", "", as_it_is)
    return model.at_most(4) if model.is_confident else None


def test_an_instance_knows_what_the_one_before_it_saw(tmp_path: Path) -> None:
    function = promised()
    assert known_at_four(tmp_path, function) is None
    seen(tmp_path, function).keep()
    assert known_at_four(tmp_path, function) == pytest.approx(0.010)
    seen(tmp_path, function, 0.020, num=100).keep()
    assert known_at_four(tmp_path, function) == pytest.approx(0.020)
    assert [path.name for path in tmp_path.iterdir()] == [times.FILE]


def test_r3_what_another_device_took_is_not_used_and_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = promised()
    seen(tmp_path, function).keep()
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("OMP_NUM_THREADS", "48")
        assert known_at_four(tmp_path, function) is None
        seen(tmp_path, function, 0.002).keep()
        assert known_at_four(tmp_path, function) == pytest.approx(0.002)
    assert known_at_four(tmp_path, function) == pytest.approx(0.010)


def test_r3_a_slice_of_a_gpu_is_another_device_than_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def gpu(num_processors: int, memory_gib: int) -> types.SimpleNamespace:
        found = types.SimpleNamespace(name="A100", multi_processor_count=num_processors, total_memory=memory_gib << 30)
        cuda = types.SimpleNamespace(
            is_available=lambda: True, current_device=lambda: 0, get_device_properties=lambda device: found
        )
        return types.SimpleNamespace(cuda=cuda)

    kinds = []
    for num_processors, memory_gib in ((108, 80), (14, 10)):
        monkeypatch.setitem(times.sys.modules, "torch", gpu(num_processors, memory_gib))
        kinds.append(times.kind(1))
    assert kinds == ["1 x A100, 108 SMs, 81920 MiB", "1 x A100, 14 SMs, 10240 MiB"]
    assert "A100" not in times.kind(0)


APP = """
from faas import Batching, inference_function


@inference_function(batching=Batching(max_batch_size=4, slo_ms=10_000))
class Doubles:
    def setup(self):
        self.factor = 2

    def predict(self, numbers: list[int]) -> list[int]:
        return [self.factor * number for number in numbers]
"""


def test_an_instance_begins_with_what_another_wrote_beside_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "doubles_app.py").write_text(APP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    snapshot.freeze({"attributes": {"factor": 2}, "globals": {}}, tmp_path / "frozen")
    revision = Revision(
        id="r",
        target=str(tmp_path / "doubles_app.py"),
        function="doubles",
        snapshot=str(tmp_path / "frozen"),
    )

    async def instance() -> bool:
        """Serve some calls, and tell whether anything was known before them."""
        runtime = (loaded := Loaded(revision)).server.runtime
        await runtime.start(loaded.thaw)
        engine: Any = runtime.engines["/"]
        knew = engine.latency.is_confident
        for number in range(30):
            assert await engine.answer(Call({"numbers": number}, Context("r"))) == 2 * number
        await runtime.drain(10.0)
        await runtime.close()
        return bool(knew)

    try:
        assert [asyncio.run(instance()) for _ in range(3)] == [False, True, True]
    finally:
        sys.modules.pop("doubles_app", None)


def test_a_few_batches_are_not_kept(tmp_path: Path) -> None:
    seen(tmp_path, promised(), num=5).keep()
    assert list(tmp_path.iterdir()) == []


def test_each_bucket_of_an_endpoint_has_its_own(tmp_path: Path) -> None:
    function = promised()
    made = Times(function)
    made.read(tmp_path)
    for label, seconds in (("16", 0.010), ("64", 0.040)):
        model = made.model("/", label, as_it_is)
        for _ in range(40):
            model.observe(4, seconds)
    made.keep()
    again = Times(function)
    again.read(tmp_path)
    assert [again.model("/", label, as_it_is).at_most(4) for label in ("16", "64")] == pytest.approx([0.010, 0.040])


@pytest.mark.parametrize("content", ["", "[]", '{"format": 99, "devices": {}}', '{"format": 1, "devices": {"x": 3}}'])
def test_a_file_that_is_no_such_thing_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / times.FILE).write_text(content)
    assert known_at_four(tmp_path, promised()) is None
    seen(tmp_path, promised()).keep()
    assert json.loads((tmp_path / times.FILE).read_text())["format"] == 1


def test_a_folder_that_takes_no_file_costs_nobody_anything(tmp_path: Path) -> None:
    made = seen(tmp_path / "gone", promised())
    made.keep()
    assert list(tmp_path.iterdir()) == []


def test_what_a_processor_is_called_is_read_from_the_first_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n")
    monkeypatch.setattr(times, "_CPUINFO", path)
    assert times.kind(0) == "Some CPU @ 2 GHz"
    monkeypatch.setattr(times, "_CPUINFO", tmp_path / "none")
    assert times.kind(0)
