"""A trial that is watched from the command line: how it ends is the exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deploy.knative import Cluster
from deploy.knative.rollout import Outcome
from deploy.rollback import Decision
from tests.cli.conftest import Faas
from tests.deploy.knative.given import deployed


@pytest.mark.parametrize(
    ("verdict", "code", "says"),
    [
        ("promote", 0, "hello-00002 is promoted: as good"),
        ("roll back", 1, "hello-00002 is taken back, hello-00001 has all calls: as good"),
    ],
)
def test_a_trial_that_is_taken_back_is_a_failure(
    faas: Faas, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, verdict: Any, code: int, says: str
) -> None:
    def watch(_: Cluster, name: str, **options: Any) -> Outcome:
        options["on_decision"](Decision("wait", "3 of the 50 requests that a look needs"))
        return Outcome(verdict, "as good", f"{name}-00001", f"{name}-00002", ())

    deployed(cluster, "1", "2")
    monkeypatch.setattr(Cluster, "watch_canary", watch)
    outcome = faas("traffic", "hello", "--watch")
    assert (outcome.code, outcome.out) == (code, f"{says}\n")
    assert outcome.err == "hello on trial: wait, 3 of the 50 requests that a look needs\n"
    assert json.loads(faas("traffic", "hello", "--watch", "--json").out)["verdict"] == verdict
