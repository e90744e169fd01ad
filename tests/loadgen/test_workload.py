import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from loadgen import SettingError, Workload

URL = "http://127.0.0.1:8000/predict"


def take(workload: Workload, num: int, seed: int = 0) -> list[bytes | None]:
    return list(islice(workload.take_turns(seed), num))


def test_bodies_take_turns() -> None:
    assert take(Workload(url=URL, bodies=(b"a", b"b", b"c")), 5) == [b"a", b"b", b"c", b"a", b"b"]


def test_no_bodies_means_requests_without_a_body() -> None:
    assert take(Workload(url=URL, method="GET"), 2) == [None, None]


def test_random_bodies_follow_the_seed_and_cover_all() -> None:
    workload = Workload(url=URL, bodies=(b"a", b"b", b"c"), order="random")
    drawn = take(workload, 3000, seed=5)
    assert drawn == take(workload, 3000, seed=5)
    assert drawn != take(workload, 3000, seed=6)
    assert all(900 < drawn.count(body) < 1100 for body in workload.bodies)


def test_json_values_become_bodies_with_their_type() -> None:
    workload = Workload.json(URL, ["ü", {"x": 1}])
    assert [json.loads(body) for body in workload.bodies] == ["ü", {"x": 1}]
    assert workload.headers == {"Content-Type": "application/json"}


def test_a_given_content_type_stands() -> None:
    assert Workload.json(URL, [1], headers={"content-type": "application/x"}).headers == {
        "content-type": "application/x"
    }


def test_lines_of_a_file_are_sent_as_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "bodies.jsonl"
    path.write_bytes('{"b": 1,  "a": 2}\r\n\n"ü"\n'.encode())
    assert Workload.from_jsonl(URL, path, order="random").bodies == (b'{"b": 1,  "a": 2}', '"ü"'.encode())


@pytest.mark.parametrize(("content", "named"), [(b"", "no lines"), (b"\n \n", "no lines"), (b"1\n{x}\n", "body 2")])
def test_a_file_that_is_not_json_lines_is_refused(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "bodies.jsonl"
    path.write_bytes(content)
    with pytest.raises(SettingError, match=named):
        Workload.from_jsonl(URL, path)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"url": "127.0.0.1:8000"}, "127.0.0.1:8000"),
        ({"url": "ftp://host/"}, "ftp://host/"),
        ({"url": "http:///path"}, "http:///path"),
        ({"url": "http://host:99999/"}, "99999"),
        ({"url": ""}, "url"),
        ({"method": "GET /"}, "GET /"),
        ({"method": ""}, "method"),
        ({"headers": {"X-A": "1\r\nX-B: 2"}}, "X-A"),
        ({"headers": {"X A": "1"}}, "X A"),
        ({"order": "shuffled"}, "shuffled"),
        ({"bodies": b"abc"}, "abc"),
        ({"bodies": ("abc",)}, "abc"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingError) as refused:
        Workload(**{"url": URL, **settings})
    assert named in str(refused.value)
    assert "give" in str(refused.value)
