import io
import os
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor

import pytest
import tqdm

from faas import inference_function, library_threads
from faas.handler import Handler, Unkept


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
    monkeypatch.delenv("FAAS_TEST_SIZE", raising=False)

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


def test_slots_are_more_than_state():
    @inference_function
    class Slotted:
        __slots__ = ("a",)

        def setup(self) -> None:
            self.a = 1

        def predict(self, x: int) -> int:
            return x + self.a

    handler = Handler(Slotted)
    with pytest.raises(Unkept, match="__slots__"):
        handler.setup_to_keep()
    assert handler.method(Slotted.main)(x=1) == 2


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
