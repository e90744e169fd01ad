"""Values of secrets as people give them."""

from pathlib import Path

import pytest

from deploy import InvalidSpec
from deploy.env_file import files, literals, notes, parse


def test_literals_keep_the_value_as_it_is() -> None:
    assert literals(["A=b=c", "EMPTY=", "SPACE= x "]) == {"A": b"b=c", "EMPTY": b"", "SPACE": b" x "}


def test_a_word_that_is_no_literal_is_not_shown_whole() -> None:
    with pytest.raises(InvalidSpec) as raised:
        literals(["hf_secrettoken"])
    assert "secrettoken" not in str(raised.value)


def test_files_by_their_names_or_by_others(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_bytes(b"\xff\n")
    path = str(tmp_path / "cert.pem")
    assert files([path]) == {"cert.pem": b"\xff\n"}
    assert files([f"tls={path}"]) == {"tls": b"\xff\n"}
    with pytest.raises(InvalidSpec, match="cannot be read: No such file"):
        files([f"{tmp_path}/absent"])


def test_lines_of_an_env_file() -> None:
    text = """
    # a comment
    A=1
    export B = two words # and a comment
    C='sin"gle # $HOME'
    D="a\\nb \\"q\\" \\\\ # not one"  # one
    URL=https://x/#frag
    EMPTY=
    """
    assert parse(text) == {
        "A": b"1",
        "B": b"two words",
        "C": b'sin"gle # $HOME',
        "D": b'a\nb "q" \\ # not one',
        "URL": b"https://x/#frag",
        "EMPTY": b"",
    }


def test_lines_as_other_editors_end_them_and_values_of_several() -> None:
    key = "-----BEGIN KEY-----\n\nabc=\n-----END KEY-----"
    assert parse(f"\ufeffA=1\r\nKEY=\"{key}\" # mine\r\nB='x  \r\n y'\r\n") == {
        "A": b"1",
        "KEY": key.encode(),
        "B": b"x  \n y",
    }
    assert parse("A=one\x0ctwo\u2028three") == {"A": "one\x0ctwo\u2028three".encode()}, "a line ends at a line feed"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("A", "line 1"),
        ("A=1\nA=2", "given twice"),
        ("A='x\nB=1\n", "line 1 has a quote that does not end"),
        ('A="x" y', "line 1 goes on after"),
        ("a b=1", "not a key"),
    ],
)
def test_lines_that_are_wrong(text: str, part: str) -> None:
    with pytest.raises(InvalidSpec, match=part):
        parse(text)


def test_what_a_variable_does_not_take_is_noted() -> None:
    assert notes("hub", {"TOKEN": b"abc", "CERT": b"-----\nabc\n-----\n"}) == []
    of_value, of_key = notes("hub", {"hf-token": b"abc", "TOKEN": b"abc\n"})
    assert "the value of TOKEN ends with a line feed" in of_value
    assert "secrets=['VARIABLE=hub/hf-token']" in of_key
