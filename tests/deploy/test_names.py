"""One spelling of a name: valid, distinct, stable, short enough for everything that is derived from it."""

import re
import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deploy import InvalidName, InvalidSpec
from deploy.names import dns_label, is_label_value, is_namespace, is_qualified, is_subdomain, max_length

from .properties import unhurried

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
python_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,250}", fullmatch=True).filter(
    lambda name: re.search(r"[A-Za-z0-9]", name)
)
labels = st.from_regex(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?", fullmatch=True)
namespaces = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True)
any_text = st.text(max_size=300)


@unhurried
@given(python_names, namespaces)
def test_a_python_name_becomes_a_label_with_room_around_it(name: str, namespace: str) -> None:
    label = dns_label(name, namespace)
    assert LABEL.fullmatch(label)
    assert len(f"{label}-00001-deployment") <= 63
    assert len(f"candidate-{label}-{namespace}") <= 63
    assert dns_label(label, namespace) == label


@unhurried
@given(any_text)
def test_any_text_becomes_a_label_or_a_clear_error(name: str) -> None:
    try:
        label = dns_label(name)
    except InvalidName:
        assert not re.search(r"[A-Za-z0-9]", name)
    else:
        assert LABEL.fullmatch(label)
        assert len(label) <= max_length("default")


@unhurried
@given(python_names, python_names)
def test_names_that_differ_get_labels_that_differ(one: str, other: str) -> None:
    assume(one != other)
    assert dns_label(one) != dns_label(other)


@unhurried
@given(labels)
def test_every_other_spelling_of_a_label_gets_another(label: str) -> None:
    for other in (label.replace("-", "_"), label.upper(), f"_{label}", f"{label}.", f"{label}é"):
        assert (dns_label(other) == dns_label(label)) is (other == label)


@unhurried
@given(labels)
def test_a_label_stays_as_it_is(label: str) -> None:
    assert dns_label(label) == label


@pytest.mark.parametrize("length", [45, 46, 49, 50, 57, 63, 64, 200])
def test_kn_04_long_names_are_shortened_with_a_hash(length: int) -> None:
    name = "m" * length
    label = dns_label(name)
    assert len(label) == min(length, 45)
    assert (label == name) is (length <= 45)


def test_kn_04_two_long_names_with_one_beginning_stay_apart() -> None:
    one, other = "m" * 60 + "a" * 140, "m" * 60 + "b" * 140
    assert dns_label(one) != dns_label(other)
    assert dns_label(one)[:36] == dns_label(other)[:36]


def test_kn_04_the_label_is_the_same_in_another_process() -> None:
    program = "from deploy.names import dns_label; print(dns_label('My_Model.v2' * 20, 'team'))"
    seeded = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True, text=True, check=True, timeout=60, env={"PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    ]  # fmt: skip
    assert set(seeded) == {dns_label("My_Model.v2" * 20, "team")}


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("my_model", "my-model"), ("MyModel", "mymodel"), ("model.v2", "model-v2"), ("2fast", "f-2fast"),
        ("_x_", "x"), ("é", "e"), ("Ünder__score", "under-score"), ("a" * 35 + "_" + "b" * 20, "a" * 35),
    ],
)  # fmt: skip
def test_k8_05_what_is_kept_of_a_name(name: str, stem: str) -> None:
    assert re.fullmatch(rf"{stem}-[0-9a-f]{{8}}", dns_label(name))


@pytest.mark.parametrize("name", ["日本", "", "___", "🙂", "\ud800"])
def test_k8_05_nothing_left_of_a_name_is_a_clear_error(name: str) -> None:
    with pytest.raises(InvalidName, match="no letter or digit") as caught:
        dns_label(name)
    assert isinstance(caught.value, InvalidSpec)
    assert isinstance(caught.value, ValueError)


def test_a_namespace_that_leaves_no_room_is_a_clear_error() -> None:
    with pytest.raises(InvalidName, match=r"of 48 characters leaves 4 for a name; choose .* at most 40 characters"):
        dns_label("hello", "n" * 48)
    assert dns_label("abcd", "n" * 48) == "abcd"
    assert len(dns_label("hello_there", "n" * 40)) == 12
    with pytest.raises(InvalidName, match="leaves 0"):
        dns_label("hello", "n" * 63)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (is_namespace, ["default", "0", "a-b"], ["", "A", "-a", "a.b", "a" * 64, "a\n"]),
        (is_subdomain, ["a.b-c", "x" * 253], ["", "a..b", ".a", "a_b", "x" * 254]),
        (is_qualified, ["name", "a.b/Name_1", "x/" + "n" * 63], ["", "a/", "/a", "A/b", "a/b/c", "n" * 64, "-n"]),
        (is_label_value, ["", "v1.2_x", "n" * 63], ["-a", "a ", "n" * 64, "é"]),
    ],
)
def test_the_grammar_of_other_names(check: object, good: list[str], bad: list[str]) -> None:
    assert callable(check)
    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []
