from __future__ import annotations

import json
from typing import Any

import pytest

from faas.cli import listing

COLUMNS: listing.Columns = {"name": lambda row: row["name"], "number": lambda row: row.get("number")}


def test_a_table_is_aligned_under_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [{"name": "a", "number": 1000}, {"name": "longer"}, {"name": ""}]
    listing.show(rows, COLUMNS, as_json=False, none="nothing")
    assert capsys.readouterr().out.splitlines() == [
        "NAME    NUMBER",
        "a       1000",
        "longer  -",
        "-       -",
    ]


def test_json_has_all_that_the_rows_hold(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a", "hidden": [1, None]}]
    listing.show(rows, COLUMNS, as_json=True, none="nothing")
    assert json.loads(capsys.readouterr().out) == rows


def test_no_rows_are_a_sentence_or_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    listing.show([], COLUMNS, as_json=False, none="nothing here")
    listing.show([], COLUMNS, as_json=True, none="nothing here")
    assert capsys.readouterr().out == "nothing here\n[]\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, None), (0.0004, "0 ms"), (0.25, "250 ms"), (1.25, "1.2 s"), (59.6, "60 s"), (150, "2 min"), (9000, "2 h")],
)
def test_durations(seconds: float | None, text: str | None) -> None:
    assert listing.duration(seconds) == text


@pytest.mark.parametrize(
    ("num_bytes", "text"),
    [(None, None), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**30, "1.0 GiB"), (2**52, "4096.0 TiB")],
)
def test_sizes(num_bytes: int | None, text: str | None) -> None:
    assert listing.size(num_bytes) == text
