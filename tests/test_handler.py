import os
import sys
import types

import pytest

from faas import inference_function
from faas.handler import Handler


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
    state = handler.setup()
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
    assert handler.setup()["attributes"] == {}
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

    assert Handler(Sized).setup()["attributes"] == {"size": "9"}
