import csv
import decimal
import io
import os
import socket
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import tqdm

import snapshot
from faas import inference_function, library_threads, process_settings
from faas.handler import Handler, Itself, Unkept


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A user's module, loaded from a file."""
    made = types.ModuleType("users_app")
    made.__file__ = str(tmp_path / "users_app.py")
    monkeypatch.setitem(sys.modules, "users_app", made)
    exec(  # as an import would
        """
from faas import inference_function
MODEL = None
SCALE = 2
@inference_function
class F:
    def __init__(self):
        self.made = True
    def setup(self):
        global MODEL
        MODEL = 7
        self.weights = [1]
    def after_thaw(self):
        self.fresh = True
    def teardown(self):
        self.torn = True
    def predict(self, x: int) -> int:
        return x * SCALE + MODEL
""",
        made.__dict__,
    )
    return made


def test_cp_04_state_is_the_objects_attributes_and_the_globals_that_setup_bound(module):
    handler = Handler(module.F)
    state = handler.setup_to_keep()
    assert state == {"attributes": {"made": True, "weights": [1]}, "globals": {"users_app": {"MODEL": 7}}}
    assert handler.method(module.F.main)(x=1) == 9


def test_cp_04_restored_state_is_seen_by_predict(module):
    handler = Handler(module.F)
    handler.restore({"attributes": {"weights": [3]}, "globals": {"users_app": {"MODEL": 70}}})
    handler.after_thaw()
    assert handler.method(module.F.main)(x=1) == 72
    assert vars(handler.method(module.F.main).__self__) == {"weights": [3], "fresh": True}


def test_teardown_is_the_handlers(module):
    handler = Handler(module.F)
    handler.setup()
    handler.teardown()
    assert handler.method(module.F.main).__self__.torn


def test_a_function_has_no_state():
    @inference_function
    def f(x: int) -> int:
        return x + 1

    handler = Handler(f)
    assert handler.setup_to_keep()["attributes"] == {}
    handler.after_thaw()
    handler.teardown()
    assert handler.method(f.main)(1) == 2


def test_setup_sees_the_functions_environment(monkeypatch):
    monkeypatch.setenv("FAAS_TEST_SIZE", "another's")

    @inference_function(env={"FAAS_TEST_SIZE": "9"})
    class Sized:
        def setup(self) -> None:
            self.size = os.environ["FAAS_TEST_SIZE"]

        def predict(self, x: int) -> str:
            return self.size

    assert Handler(Sized).setup_to_keep()["attributes"] == {"size": "9"}


def test_a_container_of_the_module_that_setup_filled_is_state(module):
    module.CACHE, module.SAME = {}, {"a": 1}

    @inference_function
    class Fills:
        def setup(self) -> None:
            module.CACHE["k"] = 9

        def predict(self, x: int) -> int:
            return x

    assert Handler(Fills).setup_to_keep()["globals"] == {"users_app": {"CACHE": {"k": 9}}}


def test_threads_of_the_users_own_that_setup_started_are_more_than_state(module):
    done = threading.Event()
    exec("def refresh(done):\n    done.wait()", module.__dict__)

    @inference_function
    class Starts:
        def setup(self) -> None:
            threading.Thread(target=module.refresh, args=(done,), name="refresher", daemon=True).start()

        def predict(self, x: int) -> int:
            return x

    try:
        with pytest.raises(Unkept, match="started threads, which no snapshot holds: refresher"):
            Handler(Starts).setup_to_keep()
    finally:
        done.set()


def test_idle_threads_of_libraries_are_no_state():
    with ThreadPoolExecutor(1) as pool:

        @inference_function
        class Pools:
            def setup(self) -> None:
                self.answer = pool.submit(int, "7").result()

            def predict(self, x: int) -> int:
                return x

        assert Handler(Pools).setup_to_keep()["attributes"] == {"answer": 7}


def test_threads_that_a_library_starts_again_when_it_needs_them_are_ended():
    @inference_function
    class Loads:
        def setup(self) -> None:
            self.read = list(tqdm.tqdm(range(3), file=io.StringIO()))
            assert tqdm.tqdm.monitor.is_alive()

        def predict(self, x: int) -> int:
            return x

    assert Handler(Loads).setup_to_keep()["attributes"] == {"read": [0, 1, 2]}
    assert not tqdm.tqdm.monitor.is_alive()
    list(tqdm.tqdm(range(3), file=io.StringIO()))
    assert tqdm.tqdm.monitor.is_alive()
    library_threads.end()
    assert not tqdm.tqdm.monitor.is_alive()


@pytest.mark.parametrize(
    ("change", "back", "named"),
    [
        (lambda: torch.set_default_dtype(torch.float64), lambda was: torch.set_default_dtype(torch.float32), "dtype"),
        (
            lambda: torch.set_default_device("meta"),
            lambda was: torch.set_default_device(None),
            "torch's default device",
        ),
        (
            lambda: torch.set_float32_matmul_precision("high"),
            lambda was: torch.set_float32_matmul_precision("highest"),
            "torch's precision of products",
        ),
        (
            lambda: torch.use_deterministic_algorithms(True),
            lambda was: torch.use_deterministic_algorithms(False),
            "torch's determinism",
        ),
        (lambda: np.seterr(all="raise"), lambda was: np.seterr(**was), "NumPy's error state"),
        (
            lambda: [decimal.getcontext(), decimal.setcontext(decimal.Context(prec=7))][0],
            decimal.setcontext,
            "prec",
        ),
        (lambda: [os.getcwd(), os.chdir("/")][0], os.chdir, "the working directory"),
        (lambda: sys.path.append("lib"), lambda was: sys.path.remove("lib"), "places that modules are found in"),
        (
            lambda: [sys.get_int_max_str_digits(), sys.set_int_max_str_digits(0)][0],
            sys.set_int_max_str_digits,
            "how many digits",
        ),
        (lambda: socket.setdefaulttimeout(7), socket.setdefaulttimeout, "how long sockets wait"),
        (lambda: csv.field_size_limit(10**9), csv.field_size_limit, "csv's limit of fields"),
    ],
    ids=[
        "dtype",
        "device",
        "matmul",
        "deterministic",
        "numpy",
        "decimal",
        "cwd",
        "path",
        "digits",
        "sockets",
        "csv",
    ],
)
def test_what_setup_sets_for_the_whole_process_is_more_than_state(change, back, named):
    was = []

    @inference_function
    class F:
        def setup(self):
            was.append(change())

        def predict(self, x: int) -> int:
            return x

    try:
        with pytest.raises(Unkept, match=rf"setup\(\) set .*{named}.* for the whole process: set it in after_thaw\(\)"):
            Handler(F).setup_to_keep()
    finally:
        back(*was)
    assert process_settings.changed_since(process_settings.now()) == []


class Owned:
    def __init__(self, owner):
        self.owner = owner


def test_a_handler_that_its_parts_refer_to_is_the_same_one_when_it_is_back(tmp_path):
    @inference_function
    class F:
        def setup(self):
            self.part, self.steps, self.count = Owned(self), [self.step], 0

        def step(self):
            self.count += 1

        def predict(self, x: int) -> int:
            self.steps[0]()
            return self.part.owner.count

    made = Handler(F)
    state = made.setup_to_keep()
    snapshot.freeze(state, tmp_path / "frozen", replacing={id(state["self"]): Itself()})
    thawed = Handler(F)
    thawed.restore(snapshot.thaw(tmp_path / "frozen").state)
    predict = thawed.method(F.main)
    assert [predict(1), predict(1)] == [1, 2]
    assert predict.__self__ is predict.__self__.part.owner is predict.__self__.steps[0].__self__
    assert made.method(F.main)(1) == 1


def test_a_handler_that_nothing_stands_in_for_is_more_than_state():
    class Slotted:
        __slots__ = ("unused",)

    @inference_function
    class F(Slotted):
        def setup(self):
            self.part = Owned(self)

        def predict(self, x: int) -> int:
            return x

    with pytest.raises(Unkept, match="refers to the handler itself, which is a Slotted"):
        Handler(F).setup_to_keep()


def test_environment_variables_that_setup_set_are_state(monkeypatch):
    monkeypatch.setenv("CHANGED", "before")
    monkeypatch.setenv("KEPT", "as it is")

    @inference_function(env={"GIVEN": "by the function"})
    class F:
        def setup(self):
            os.environ["CHANGED"] = os.environ["ADDED"] = "by setup"

        def predict(self, x: int) -> int:
            return x

    for name in ("ADDED", "GIVEN"):
        monkeypatch.setenv(name, "")  # noted, so that it is gone after the test
        monkeypatch.delenv(name)
    state = Handler(F).setup_to_keep()
    assert state["environ"] == {"CHANGED": "by setup", "ADDED": "by setup"}
    monkeypatch.setenv("CHANGED", "elsewhere")
    monkeypatch.delenv("ADDED")
    Handler(F).restore(state)
    assert (os.environ["CHANGED"], os.environ["ADDED"]) == ("by setup", "by setup")


def test_slots_are_more_than_state():
    @inference_function
    class Slotted:
        __slots__ = ("a",)

        def setup(self) -> None:
            self.a = 1

        def predict(self, x: int) -> int:
            return x + self.a

    class Partly:
        __slots__ = ("a",)

    @inference_function
    class Inherits(Partly):
        def setup(self) -> None:
            self.a, self.b = 1, 2

        def predict(self, x: int) -> int:
            return x + self.a

    for function in (Slotted, Inherits):
        handler = Handler(function)
        with pytest.raises(Unkept, match=f"{function.__qualname__.rpartition('.')[2]} keeps its state in __slots__"):
            handler.setup_to_keep()
        assert handler.method(function.main)(x=1) == 2


def test_hooks_are_the_classs_whatever_its_getattr_says():
    @inference_function
    class Loose:
        def __getattr__(self, name: str) -> object:
            raise KeyError(name)

        def predict(self, x: int) -> int:
            return x

    handler = Handler(Loose)
    handler.setup()
    handler.after_thaw()
    handler.teardown()
