from __future__ import annotations

import json

import pytest

from faas import errors
from faas.server.problem import Problem


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (errors.SchemaMismatch("m", "$.x"), 422, "schema-mismatch"),
        (errors.MalformedBody("m"), 400, "malformed-body"),
        (errors.UnsupportedMedia("m"), 415, "unsupported-media"),
        (errors.PayloadTooLarge("m"), 413, "payload-too-large"),
        (errors.BadInput("m"), 422, "bad-input"),
        (errors.QueueFull("m", 2.2), 429, "queue-full"),
        (errors.DeadlineUnmeetable("m", 0.01), 429, "deadline-unmeetable"),
        (errors.Unavailable("m"), 503, "unavailable"),
        (errors.DeadlineExceeded("m"), 504, "deadline-exceeded"),
        (errors.CallerGone("m"), 499, "caller-gone"),
        (errors.HandlerError("m"), 500, "handler-contract"),
        (errors.RemoteError("m", 429), 429, "remote-error"),
        (errors.SettingError("m"), 500, "handler-error"),
        (ValueError("m"), 500, "handler-error"),
        (KeyError(), 500, "handler-error"),
    ],
)
def test_every_error_has_its_status(error, status, kind):
    problem = Problem.of(error)
    assert problem.status == status
    said = json.loads(problem.body("r-1"))
    assert said["type"] == f"urn:problem-type:faas:{kind}"
    assert said["status"] == status
    assert said["request_id"] == "r-1"
    assert said["title"]
    assert said["detail"]
    assert "traceback" not in said


def test_when_to_come_back_is_a_whole_second_or_more():
    for stated, header in ((0.01, b"1"), (1.0, b"1"), (2.2, b"3")):
        problem = Problem.of(errors.QueueFull("full", stated))
        assert (b"retry-after", header) in problem.headers(b"")
    assert not any(name == b"retry-after" for name, _ in Problem.of(ValueError()).headers(b""))


def test_a_traceback_is_for_debugging_and_for_the_servers_own_errors():
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError("here")
    trace = json.loads(Problem.of(raised.value, debug=True).body("r"))["traceback"]
    assert any("raise RuntimeError" in line for line in trace)
    assert "traceback" not in json.loads(Problem.of(errors.BadInput("x"), debug=True).body("r"))


@pytest.mark.parametrize("base", [errors.QueueFull, errors.SchemaMismatch, errors.RemoteError])
def test_a_subclass_of_a_user_that_leaves_our_init_out_is_told_too(base):
    class Own(base):
        def __init__(self):
            pass

    problem = Problem.of(Own())
    assert problem.status == Problem.of(base("m", *([500] if base is errors.RemoteError else []))).status
    assert json.loads(problem.body("r"))["title"]


class Weird(Exception):
    """Its message is of an argument that it was not given."""

    def __str__(self) -> str:
        return f"{self.args[1]}"


def test_an_error_whose_message_cannot_be_read_is_still_told():
    said = json.loads(Problem.of(Weird("only"), debug=True).body("r"))
    assert (said["status"], said["error"]) == (500, "Weird")
    assert said["detail"] == "Weird: (its message cannot be read: IndexError)"

    class WeirdInput(Weird, errors.BadInput):
        pass

    said = json.loads(Problem.of(WeirdInput("only")).body("r"))
    assert (said["status"], said["detail"]) == (422, "(its message cannot be read: IndexError)")


def test_404_is_a_plain_problem():
    said = json.loads(Problem.plain(404, "no").body("r"))
    assert (said["type"], said["title"]) == ("about:blank", "Not Found")


def test_an_error_that_quotes_all_it_was_given_is_told_in_short():
    said = json.loads(Problem.of(ValueError("\ud800x" * 5_000_000)).body("r"))
    assert len(said["detail"]) < 10_000
    assert said["detail"].endswith("(10000012 characters in all)")
    assert json.loads(Problem.of(ValueError("x" * 8000)).body("r"))["detail"] == "ValueError: " + "x" * 8000
