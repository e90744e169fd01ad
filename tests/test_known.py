"""What setup() changed in the user's modules, told from what they held before."""

import statistics
import sys
import textwrap
import types

import pytest

from faas import patches
from faas.handler import Handler, Unkept
from faas.known import Known

APP = """
    import collections, dataclasses, functools, types
    import numpy as np
    import torch
    from faas import inference_function

    NESTED = {"a": {"b": [1]}}
    GROUPS = collections.defaultdict(list)
    WAITING = collections.deque()
    TABLE = np.zeros(3)
    NET = torch.nn.Linear(2, 1)
    SPACE = types.SimpleNamespace(x=1)

    @dataclasses.dataclass
    class Config:
        scale: int = 1
        more: dict = dataclasses.field(default_factory=dict)

    class Slots:
        __slots__ = ("x", "y")
        def __init__(self): self.x = 1

    class Registry:
        known = {}
        class Inner:
            size = 1
        @staticmethod
        def plain(): return 1

    class Raises:
        def __getattr__(self, name): raise RuntimeError(name)
        def __eq__(self, other): raise RuntimeError("==")
        __hash__ = None
        @property
        def __class__(self): raise RuntimeError("outside of its context")

    CONFIG, SLOTS, RAISES = Config(), Slots(), Raises()
    LONG, BYTES = [[n] for n in range(1000)], bytearray(b"abc")

    def score(x, seen=[]): return x
    def make():
        held = 0
        def put(value):
            nonlocal held
            held = value
        return put
    PUT = make()

    @functools.lru_cache
    def loaded(name): return {"name": name}
    @functools.lru_cache
    def named(name, *, times=1): return name * times

    @functools.singledispatch
    def encode(x): return 0

    @inference_function
    class Model:
        weights = None
        def predict(self, x: int) -> int: return x
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    made = types.ModuleType("known_app")
    made.__file__ = str(tmp_path / "known_app.py")
    monkeypatch.setitem(sys.modules, "known_app", made)
    exec(textwrap.dedent(APP), made.__dict__)
    return made


@pytest.fixture
def known(app, monkeypatch):
    monkeypatch.setattr("faas.modules.of_user", lambda: [app])
    return Known()


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ("NESTED['a']['b'].append(2)", {"known_app": ["NESTED"]}),
        ("GROUPS['a'].append(1)", {"known_app": ["GROUPS"]}),
        ("WAITING.append(1)", {"known_app": ["WAITING"]}),
        ("TABLE[1] = 5", {"known_app": ["TABLE"]}),
        ("NET.weight.data.fill_(3)", {"known_app": ["NET"]}),
        ("NET.eval()", {"known_app": ["NET"]}),
        ("LONG[500].append(1)", {"known_app": ["LONG"]}),
        ("LONG[500].append(SLOTS)", {"known_app": ["LONG"]}),
        ("BYTES[0] = 0", {"known_app": ["BYTES"]}),
        ("SPACE.x = 2", {"known_app": ["SPACE"]}),
        ("CONFIG.scale = 2", {"known_app": ["CONFIG"]}),
        ("CONFIG.more['k'] = SLOTS", {"known_app": ["CONFIG"]}),
        ("SLOTS.y = 2", {"known_app": ["SLOTS"]}),
        ("Registry.known['k'] = 1", {"known_app:Registry": ["known"]}),
        ("Registry.Inner.size = 2", {"known_app:Registry.Inner": ["size"]}),
        ("Registry.fresh = score", {"known_app:Registry": ["fresh"]}),
        ("Model.user.weights = [1]", {"known_app:Model": ["weights"]}),
        ("globals().update(json=__import__('json'))", {"known_app": ["json"]}),
        ("RAISES.__dict__['x'] = 1", {"known_app": ["RAISES"]}),
        ("named('a', times=2); TABLE[1] = 0; NESTED['a']['b'] = [1]; GROUPS.clear()", {}),
    ],
)
def test_what_was_changed_where_it_is_has_its_name(app, known, change, names):
    exec(change, app.__dict__)
    assert {namespace: list(values) for namespace, values in known.changed().items()} == names
    assert known.changed_functions(()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("score.weight = 2", "what known_app.score() holds"),
        ("score.__defaults__[0].append(1)", "what known_app.score() holds"),
        ("PUT(5)", "what known_app.make.<locals>.put() holds"),
        ("encode.register(int, lambda x: x)", "what known_app.encode() holds"),
        ("loaded('a')", "what known_app.loaded() keeps of its results"),
    ],
)
def test_what_functions_hold_is_told(app, known, change, words):
    exec(change, app.__dict__)
    assert known.changed_functions(()) == [words]


def test_state_in_classes_and_in_place_is_back_where_it_was(app):
    def setup(self):
        app.NESTED["a"]["b"].append(2)
        app.Registry.Inner.size = 7
        type(self).weights = [3]

    app.Model.user.setup = setup
    state = Handler(app.Model).setup_to_keep()
    app.NESTED, app.Registry.Inner.size, app.Model.user.weights = None, 1, None
    Handler(app.Model).restore(state)
    assert (app.NESTED, app.Registry.Inner.size, app.Model.user.weights) == ({"a": {"b": [1, 2]}}, 7, [3])


def test_what_is_put_in_the_place_of_a_librarys_is_told(app, monkeypatch):
    before = patches.now()
    monkeypatch.setattr(statistics, "mean", app.score)
    monkeypatch.setattr(statistics.NormalDist, "cdf", app.score)
    assert patches.made_since(before) == ["statistics.NormalDist.cdf", "statistics.mean"]
    assert patches.made_since(patches.now()) == []


def test_a_setup_that_patches_a_library_runs_in_every_instance(app, monkeypatch):
    app.Model.user.setup = lambda self: monkeypatch.setattr(statistics, "mean", app.score)
    with pytest.raises(Unkept, match=r"setup\(\) put something else in the place of statistics.mean"):
        Handler(app.Model).setup_to_keep()


def test_a_setup_whose_functions_keep_what_it_did_runs_in_every_instance(app):
    app.Model.user.setup = lambda self: app.loaded("a")
    with pytest.raises(Unkept, match=r"what known_app.loaded\(\) keeps of its results, which no snapshot has"):
        Handler(app.Model).setup_to_keep()


def test_a_cached_result_that_is_in_the_state_is_no_obstacle(app):
    def setup(self):
        self.model = app.loaded("a")

    app.Model.user.setup = setup
    assert Handler(app.Model).setup_to_keep()["attributes"] == {"model": {"name": "a"}}
