"""Traces in the format of Azure's of 2021."""

import pytest

from faas.errors import BadTrace
from faas.platform import trace
from faas.platform.simulation import Call

HEAD = "app,func,end_timestamp,duration\n"


def test_calls_by_function_in_the_order_of_their_begin_from_the_first(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"{HEAD}a,f,110.5,0.5\nb,g,112,2\na,f,115,8\n")
    found = trace.read(path)
    assert found.calls == {("a", "f"): [Call(0.0, 8.0), Call(3.0, 0.5)], ("b", "g"): [Call(3.0, 2.0)]}
    assert found.duration_s == 8.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must name the columns app, func, end_timestamp, duration"),
        ("app,func,duration\n", "must name the columns"),
        (HEAD, "has no calls"),
        (f"{HEAD}a,f,soon,1\n", "line 2: end_timestamp='soon', duration='1': must be seconds"),
        (f"{HEAD}a,f,1,1\na,f,2,-1\n", "line 3"),
        (f"{HEAD}a,f,1\n", "line 2: .*duration=None"),
        (f"{HEAD}a,f,inf,1\n", "line 2"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, text, message):
    path = tmp_path / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadTrace, match=message):
        trace.read(path)


def test_a_trace_that_is_not_there(tmp_path):
    with pytest.raises(BadTrace, match="cannot be read"):
        trace.read(tmp_path / "none.csv")
