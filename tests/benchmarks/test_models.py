from pathlib import Path

import pytest

from benchmarks.peers import models
from benchmarks.peers.models import MODEL_CPU, Kind, Metered, make_meter, read_meter


class Busy:
    def setup(self) -> None:
        self.num_batches = 0

    def predict(self, items: list[str]) -> list[str]:
        self.num_batches += 1
        sum(range(200_000))
        return [item.upper() for item in items]


@pytest.fixture(autouse=True)
def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models.KINDS, "embed", Kind(Busy, 32, 1000))


def test_the_cpu_time_of_a_model_is_told_to_who_reads_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cpu"
    make_meter(path)
    monkeypatch.setenv(MODEL_CPU, str(path))
    model = Metered()
    assert read_meter(path) == 0.0
    assert model.predict(["a", "b"]) == ["A", "B"]
    once_s = read_meter(path)
    model.predict(["c"])
    assert 0.0 < once_s < read_meter(path)


def test_a_model_that_nobody_asks_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODEL_CPU, raising=False)
    assert Metered().predict(["a"]) == ["A"]
