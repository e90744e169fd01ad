"""Lines of a log as people read them."""

import json

import pytest

from deploy.knative.log_text import last_words, plain, plain_lines

OURS = {"time": "2026-08-01T10:00:00.000+00:00", "level": "warning", "logger": "app", "message": "größer: 7"}


def test_a_line_that_an_instance_logged_is_its_message() -> None:
    assert plain(json.dumps(OURS)) == "WARNING app: größer: 7"
    failed = {**OURS, "level": "error", "traceback": "Traceback ...\nValueError: no"}
    assert plain(json.dumps(failed)) == "ERROR app: größer: 7\nTraceback ...\nValueError: no"


@pytest.mark.parametrize(
    "line",
    [
        "loading",
        "",
        "{",
        '{"message": "mine"}',
        json.dumps({**OURS, "user": 7}),
        json.dumps({**OURS, "message": {"a": 1}}),
        json.dumps(OURS)[:40],
        "[1]",
        "\u2028 50%\r100%",
    ],
)
def test_what_a_function_prints_stays_as_it_is(line: str) -> None:
    assert plain(line) == line


def test_the_kubelets_excuse_is_no_log() -> None:
    assert plain_lines("unable to retrieve container logs for containerd://4416\n") == []
    assert plain_lines(f"{json.dumps(OURS)}\n\nlast\n") == ["WARNING app: größer: 7", "last"]


def test_last_words_are_those_of_the_error_and_not_what_to_do_next() -> None:
    ended = "error: the bundle cannot be loaded: no licence\nnext:  make it again\n"
    assert last_words(f"{json.dumps(OURS)}\n{ended}") == "the bundle cannot be loaded: no licence"
    assert last_words("Traceback\nValueError: no\n") == "ValueError: no"
    assert last_words(" \n") == ""
    assert last_words("x" * 2000) == "x" * 300 + "..."
