import pytest

from benchmarks.measures.exported_start import Started, Starts, rows


def test_each_form_is_held_against_the_plain_way_by_its_median():
    def started(total_ms):
        return Started(total_ms, {"import": total_ms / 2, "thaw": total_ms / 4}, 2**20)

    found = Starts(plain_ms=[3000.0, 1.0, 9000.0])
    found.of_form["exported to ONNX"] = [started(ms) for ms in (200.0, 100.0, 900.0)]
    found.of_form["thawed, torch alone"] = [started(2000.0)]
    by_name = {row.metric: row for row in rows(found)}
    ratio = by_name["plain start over exported to ONNX"]
    assert (ratio.value, ratio.holds) == (pytest.approx(15.0), True)
    assert by_name["plain start over thawed, torch alone"].holds is False
    assert by_name["exported to ONNX: thaw"].value == pytest.approx(50.0)
    assert by_name["exported to ONNX: memory of its own"].value == 1.0
