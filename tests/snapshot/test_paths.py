import sys
import threading
from pathlib import Path

import numpy as np

import snapshot
from snapshot import paths


class Holder:
    __slots__ = ("__dict__", "first", "unset")

    def __init__(self, first: object) -> None:
        self.first = first
        self.second = [first]


class Tabled:
    """Has the tables of a torch module and the names of its parts are in them."""

    def __init__(self, part: object) -> None:
        self._parameters = {"weight": part}
        self._buffers: dict[str, object] = {}
        self._modules: dict[str, object] = {}


def where(root: object, wanted: object) -> str | None:
    found = paths.find(root, [wanted])
    return paths.dotted(found[id(wanted)]) if found else None


def test_the_first_way_to_a_part_names_it() -> None:
    part = object()
    assert where({"a": [0, {"b": part}], "c": part}, part) == "a.1.b"
    assert where((None, part), part) == "1"
    assert where({"set": {part}}, part) == "set.<object>"
    assert where(Holder(part), part) == "second.0"
    holder = Holder(None)
    holder.first = part
    assert where([holder], part) == "0.first"
    assert where(part, part) == ""


def test_tables_of_a_torch_module_are_left_out_of_the_name() -> None:
    part = object()
    assert where({"net": Tabled(part)}, part) == "net.weight"


def test_what_only_a_call_would_reach_has_no_path() -> None:
    part = object()

    class Hidden:
        @property
        def part(self) -> object:
            raise AssertionError("called")

        def __getattr__(self, name: str) -> object:
            raise AssertionError("called")

    assert where({"hidden": Hidden(), "function": lambda: part}, part) is None


def test_a_graph_that_refers_to_itself_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert where(loop, object()) is None


def test_keys_are_spelled_as_code_and_shortened() -> None:
    step = paths.Step
    assert paths.as_code((step("a", True), step("b", False), step(3, False))) == "state.a['b'][3]"
    assert paths.as_code((step(object(), False),)) == "state[<object>]"
    assert paths.as_code((step("k" * 200, False),)) == f"state['{'k' * 76}...]"


def test_a_part_to_blame_beyond_the_walks_reach_leaves_the_error_of_the_whole() -> None:
    deep: object = threading.Lock()
    for _ in range(2 * sys.getrecursionlimit()):
        deep = [deep]

    def attempt(part: object) -> Exception | None:
        return TypeError("somewhere inside")

    assert paths.Blame(attempt, lambda part: part.__reduce_ex__(5)).find(deep) is None


def test_nothing_to_blame_when_the_whole_can_be_pickled() -> None:
    assert paths.Blame(lambda part: None, lambda part: part.__reduce_ex__(5)).find([1]) is None


def test_a_tensor_that_is_the_state_itself_is_named_by_its_number(tmp_path: Path) -> None:
    manifest = snapshot.freeze(np.arange(3), tmp_path / "s")
    assert [view.name for view in manifest.views] == ["tensor.0"]
