import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import snapshot


def held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class Client:
    def __init__(self) -> None:
        self.url = "http://host"
        self._lock = held_lock()


class Slotted:
    __slots__ = ("inner", "unset")

    def __init__(self, inner: object) -> None:
        self.inner = inner


@dataclass
class Node:
    children: list["Node"] = field(default_factory=list)
    parent: "Node | None" = None
    resource: object = None


class Stateful:
    def __init__(self) -> None:
        self.kept = 1

    def __getstate__(self) -> dict[str, object]:
        return {"made": [held_lock()]}


class Key:
    pass


class Refuses:
    def __reduce__(self) -> str:
        raise ValueError("not today")


def loop() -> Node:
    root = Node()
    root.children = [Node(parent=root), Node(parent=root, resource=held_lock())]
    return root


def closure() -> Callable[[], object]:
    lock = held_lock()
    return lambda: lock


def default() -> Callable[..., object]:
    lock = held_lock()
    return lambda it=lock: it


LOCK = "it is held"
CASES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "the state itself": (held_lock, "state", LOCK),
    "an attribute": (lambda: {"dict": Client()}, "state['dict']._lock", LOCK),
    "an attribute of an attribute": (lambda: {"a": Slotted(Client())}, "state['a'].inner._lock", LOCK),
    "a list's item": (lambda: [1, (2, [Client()])], "state[1][1][0]._lock", LOCK),
    "the second of two": (lambda: {"fine": Slotted(1), "bad": Client()}, "state['bad']._lock", LOCK),
    "behind a cycle": (loop, "state.children[1].resource", LOCK),
    "a state of its own making": (lambda: Stateful(), "state.made[0]", LOCK),
    "what a lambda closes over": (closure, "state.<closure lock>", LOCK),
    "a lambda's default": (default, "state.<default 0>", LOCK),
    "a bound method's object": (lambda: Client().__init__, "state.__self__._lock", LOCK),
    "a generator": (lambda: {"g": (i for i in ())}, "state['g']", "cannot pickle 'generator' object"),
    "a key that is an object": (lambda: {Key(): Client()}, "state[<Key>]._lock", LOCK),
    "its own refusal": (lambda: [Refuses()], "state[0]", "not today"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_frozen_is_named_by_its_path(tmp_path: Path, case: str) -> None:
    make, path, reason = CASES[case]
    with pytest.raises(snapshot.Unfreezable) as caught:
        snapshot.freeze(make(), tmp_path / "s")
    assert caught.value.path == path
    assert reason in caught.value.reason
    assert str(caught.value) == f"{path}: {caught.value.reason}"
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_graph_nested_too_deeply_is_refused_not_a_crash(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(snapshot.Unfreezable, match="recursion"):
        snapshot.freeze(deep, tmp_path / "s")


def test_the_error_itself_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(snapshot.Unfreezable("state.a", "why")))
    assert (error.path, error.reason) == ("state.a", "why")
    damaged = pickle.loads(pickle.dumps(snapshot.DigestMismatchError(Path("f"), "why")))
    assert (damaged.path, str(damaged)) == (Path("f"), "f: why")
    mismatch = pickle.loads(pickle.dumps(snapshot.LibraryMismatchError({"a": ("1", None)})))
    assert "a 1 in the snapshot, none installed" in str(mismatch)


def test_looking_for_the_path_calls_no_property(tmp_path: Path) -> None:
    called = []

    class Lazy:
        def __init__(self) -> None:
            self.client = Client()

        @property
        def expensive(self) -> None:
            called.append(1)

    with pytest.raises(snapshot.Unfreezable, match=r"state\.client\._lock"):
        snapshot.freeze(Lazy(), tmp_path / "s")
    assert not called
