import asyncio
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_load
from benchmarks.area import Bench
from benchmarks.measures import gpu_load as measures
from benchmarks.rows import short_of


def test_without_a_gpu_it_says_so_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_load, "why_not", lambda: "there is no GPU that this process may use")
    assert gpu_load.main(["--check"]) == 0
    assert capsys.readouterr().out == "gpu_load: nothing was measured: there is no GPU that this process may use\n"


@pytest.mark.parametrize(("ratio", "num_short"), [(0.86, 0), (0.84, 1)])
def test_the_bar_is_a_share_of_bare_copies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ratio: float, num_short: int
) -> None:
    asked = []

    async def run(*arguments: object) -> dict[str, Any]:
        asked.append(arguments[0])
        rates = {"pinned copies": 50.0, "ours": 45.0, "safetensors": 5.0}
        return rates | {"ours over pinned copies": ratio, "ours over safetensors": 9.0}

    monkeypatch.setattr(measures, "_run", run)
    bench = Bench(tmp_path, quick=True)
    rows = asyncio.run(measures.warm(bench))
    assert len(short_of(rows)) == num_short
    asyncio.run(measures.cold(bench))
    assert asked == ["make", "warm", "cold"]
