"""A platform holds to its memory budget, and what it learned outlives it."""

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import bring_up, take_down
from tests.e2e.test_platform import eventually

pytestmark = pytest.mark.slow

APP = """
from faas import Scaling, inference_function

kept = []


@inference_function
def first(mib: int) -> int:
    kept.append(bytearray(b"x") * (mib * 2**20))
    return mib


@inference_function
def second(mib: int) -> int:
    return mib


@inference_function(scaling=Scaling(keep_alive="histogram"))
def habitual(mib: int) -> int:
    return mib
"""


@pytest.fixture
def app(tmp_path: Path) -> str:
    path = tmp_path / "app.py"
    path.write_text(APP)
    return str(path)


def test_what_idles_makes_room_and_where_nothing_does_callers_get_the_numbers(tmp_path, app):
    box = bring_up(tmp_path / "h", app, env={"FAAS_MEMORY": "250Mi"})
    try:
        assert box.call("first", 200).status_code == 200

        def second_takes_its_place() -> bool:
            box.run("scale", "second", "0")
            answer = box.call("second", 1)
            return answer.status_code == 200 and box.instances("first") == []

        eventually(second_takes_its_place)  # what the first holds is measured a second after its start
    finally:
        take_down(box)
    box = bring_up(tmp_path / "h", env={"FAAS_MEMORY": "20Mi"})
    try:
        refused = box.call("first", 1)
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) >= 1
        detail = refused.json()["detail"]
        assert "no memory for an instance of first: it needs about" in detail
        assert "of 0.02 GiB are held by 0 instances" in detail
        assert detail == box.function("first")["failure"]
    finally:
        take_down(box)


def test_idle_times_outlive_the_platform(tmp_path, app):
    box = bring_up(tmp_path / "h", f"{app}:habitual")
    try:
        answer = box.call("habitual", 1)
        assert answer.status_code == 200, answer.text
    finally:
        take_down(box)
    kept = json.loads((tmp_path / "h" / "platform" / "habits" / "habitual.json").read_text())
    assert kept["last_at"] is not None
    box = bring_up(tmp_path / "h")
    try:
        eventually(lambda: [made["state"] for made in box.instances("habitual")] == ["ready"])
    finally:
        take_down(box)
