"""A revision on trial on a platform: how it begins, and what ends it."""

import pytest

from deploy.rollback import Limits
from faas.cli import trial
from faas.cli.failure import Failure

LIMITS = Limits(window_s=10, trial_s=20)


def metrics(num_well, num_failed=0):
    return (
        "# TYPE faas_requests counter\n"
        f'faas_requests_total{{outcome="ok"}} {num_well}\nfaas_requests_total{{outcome="error"}} {num_failed}\n'
    )


class FakeControl:
    """A platform with two revisions of a function; `counted` gives what became of their calls at each look."""

    def __init__(self, *counted, traffic=None, failure=None):
        self.counted = list(counted)
        self.failure = failure
        self.traffic = traffic or {"old": 90, "new": 10}
        self.now = 0.0

    def get(self, path):
        if path.endswith("/counts"):
            return self.counted.pop(0) if len(self.counted) > 1 else self.counted[0]
        rows = [("new", 2, self.failure), ("old", 1, None)]
        revisions = [{"revision": r, "number": n, "failure": f, "ready": int(not f)} for r, n, f in rows]
        return {"name": "f", "traffic": self.traffic, "all_revisions": revisions}

    def post(self, path, value, timeout_s):
        assert path == "/functions/f/traffic"
        self.traffic = {revision: percent for revision, percent in value["percents"].items() if percent}
        return self.get("/functions/f")

    def rest(self, seconds):
        self.now += seconds

    def follow(self):
        said = []
        outcome = trial.follow(self, "f", said.append, limits=LIMITS, rest=self.rest, clock=lambda: self.now)
        return outcome, said


def counted(new, old, *, failed=0):
    return {"new": {"failed": failed, "instances": {"n1": new}}, "old": {"failed": 0, "instances": {"o1": old}}}


def test_it_begins_with_a_share_of_what_the_leader_has():
    control = FakeControl(traffic={"old": 70, "older": 30})
    assert trial.start(control, "f", 10)["traffic"] == {"new": 10, "old": 90}


def test_a_first_revision_has_all_calls():
    control = FakeControl(traffic={"new": 100})
    assert trial.start(control, "f", 10)["traffic"] == {"new": 100}


def test_one_that_does_as_well_is_promoted():
    control = FakeControl(*(counted(metrics(100 * look), metrics(900 * look)) for look in range(10)))
    outcome, said = control.follow()
    assert (outcome.verdict, outcome.candidate, outcome.traffic) == ("promote", "new", {"new": 100})
    assert control.now == 20.0
    assert [one.verdict for one in said] == ["wait"] * 3 + ["promote"]


def test_one_that_fails_more_is_taken_back():
    control = FakeControl(*(counted(metrics(90 * look, 10 * look), metrics(900 * look)) for look in range(10)))
    outcome, _ = control.follow()
    assert (outcome.verdict, outcome.traffic) == ("roll back", {"old": 100})
    assert "error rate" in outcome.reason


def test_calls_that_the_platform_failed_since_instances_died_count():
    looks = (counted(metrics(90), metrics(900 * look), failed=60 * look) for look in range(10))
    outcome, _ = FakeControl(*looks).follow()
    assert outcome.verdict == "roll back"


def test_one_whose_instances_do_not_start_is_taken_back_at_once():
    control = FakeControl({}, failure="it ended with status 1")
    outcome, said = control.follow()
    assert (outcome.verdict, outcome.traffic, len(said)) == ("roll back", {"old": 100}, 1)
    assert "it ended with status 1" in outcome.reason


def test_where_nothing_is_on_trial_it_says_so():
    with pytest.raises(Failure, match="no revision on trial"):
        FakeControl({}, traffic={"old": 100}).follow()
