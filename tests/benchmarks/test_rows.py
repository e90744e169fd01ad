import math

import pytest

from benchmarks.rows import Row, at_least, at_most, short_of, shown, verdict


@pytest.mark.parametrize(
    ("bar", "value", "admitted"),
    [
        (at_most(28), 27.9, True),
        (at_most(28), 28, True),
        (at_most(28), 28.1, False),
        (at_least(0.93), 0.93, True),
        (at_least(0.93), 0.929, False),
        (at_least(0), math.nan, False),
        (at_most(0), math.nan, False),
    ],
)
def test_a_bar_admits_its_limit_and_what_is_better(bar, value, admitted):
    assert bar.admits(value) is admitted


def test_a_row_holds_or_not_only_where_it_has_a_bar_and_never_without_a_value():
    assert Row("rate", 3.0).holds is None
    assert Row("rate", 3.0, bar=at_least(2)).holds is True
    assert Row("rate", 1.0, bar=at_least(2)).holds is False
    assert Row("rate", None).holds is False
    assert Row("rate", None, bar=at_least(2)).holds is False


def test_a_row_as_plain_values():
    assert Row("memory", 29.5, "MiB", at_most(28)).to_dict() == {
        "metric": "memory",
        "value": 29.5,
        "unit": "MiB",
        "bar": "<= 28",
        "holds": False,
    }
    assert Row("memory", 29.5, "MiB").to_dict()["bar"] is None


def test_the_verdict_names_each_figure_that_falls_short_with_its_bar():
    rows = [
        Row("memory", 29.5, "MiB", at_most(28)),
        Row("share", 0.95, "", at_least(0.93)),
        Row("rate", 12.0, "1/s"),
        Row("echo", None),
    ]
    assert verdict(rows) == "falls short: memory (29.5 MiB, bar <= 28); echo (not measured)"
    assert [row.metric for row in short_of(rows)] == ["memory", "echo"]


def test_the_verdict_counts_the_bars_that_hold():
    rows = [Row("share", 0.95, "", at_least(0.93)), Row("rate", 12.0, "1/s")]
    assert verdict(rows) == "all 1 bars hold"
    assert verdict([Row("rate", 12.0, "1/s")]) == "nothing was held to a bar"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2000, "2,000"),
        (1234.5, "1,234"),
        (123.4, "123"),
        (12.34, "12.3"),
        (1.234, "1.23"),
        (0.9345, "0.934"),
        (-11.24, "-11.2"),
        (0.0, "0"),
    ],
)
def test_figures_are_shown_with_about_three_digits(value, text):
    assert shown(value) == text
