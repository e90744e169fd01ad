"""Amounts: the grammar of Kubernetes, and the mistakes that it lets through."""

import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy import InvalidQuantity
from deploy.quantity import cpu, memory, parse

from .properties import unhurried


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1"), ("1.5", "1.5"), (".5", "0.5"), ("2.", "2"), ("500m", "0.5"), ("5u", "0.000005"),
        ("7n", "0.000000007"),
        ("2k", "2000"), ("3M", "3e6"), ("4G", "4e9"), ("5T", "5e12"), ("6P", "6e15"), ("7E", "7e18"), ("1E3", "1000"),
        ("1e-3", "0.001"),
        ("1Ki", "1024"), ("1Mi", "1048576"), ("0.5Gi", "536870912"), ("-1", "-1"), ("+2Ti", "2199023255552"),
    ],
)  # fmt: skip
def test_parse(text: str, expected: str) -> None:
    assert parse("x", text) == decimal.Decimal(expected)


def test_an_amount_is_exact_whatever_precision_an_application_has_set() -> None:
    with decimal.localcontext(decimal.Context(prec=3)):
        assert (parse("x", "2199023255552"), parse("x", "1.5Gi")) == (2**41, 3 * 2**29)
        assert cpu("x", "1234567m") == "1234567m"


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "1KB", "4gb", "1K", "1.2.3", "1e999", "٣", "1Gi\n", "0x10", "one"])
def test_what_is_not_a_quantity(text: str) -> None:
    with pytest.raises(InvalidQuantity, match="is not a Kubernetes quantity; write"):
        parse("resources.memory", text)


@pytest.mark.parametrize(
    ("text", "hint"), [("4gb", "'4Gi'"), ("512MB", "'512M'"), ("64k b", "write a number"), ("8 K", "'8k'")]
)
def test_kn_10_a_wrong_unit_is_told_the_right_one(text: str, hint: str) -> None:
    with pytest.raises(InvalidQuantity, match=hint) as caught:
        memory("resources.memory", text)
    assert (caught.value.option, caught.value.value) == ("resources.memory", text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, "1"), (1.0, "1"), (0.5, "500m"), (0.1, "100m"), ("2500m", "2500m"), ("2000m", "2"), ("1e1", "10")],
)
def test_cpu_in_the_form_of_the_api_server(value: str | float, expected: str) -> None:
    assert cpu("x", value) == expected


@unhurried
@given(st.integers(min_value=1, max_value=10**6))
def test_cpu_is_stable_and_keeps_its_amount(thousandths: int) -> None:
    once = cpu("x", f"{thousandths}m")
    assert parse("x", once) * 1000 == thousandths
    assert cpu("x", once) == once


@pytest.mark.parametrize("value", [0, -1, "0.0001", "1u", True, None, float("nan"), float("inf"), "half"])
def test_cpu_that_nobody_can_have(value: object) -> None:
    with pytest.raises(InvalidQuantity, match=r"^resources\.cpu=.*; write"):
        cpu("resources.cpu", value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["512", "512m", "15Mi", "-2Gi", 2])
def test_memory_in_which_nothing_starts(value: object) -> None:
    with pytest.raises(InvalidQuantity, match="write a unit"):
        memory("resources.memory", value)  # type: ignore[arg-type]


def test_memory_stays_as_written() -> None:
    assert [memory("x", text) for text in ("16Mi", "1.5Gi", "2e9")] == ["16Mi", "1.5Gi", "2e9"]
