"""A function on the platform whose requirements the platform itself does not meet, beside one that needs none."""

import os
from pathlib import Path

import pytest

from tests.e2e.conftest import bring_up, take_down
from tests.wheels import only_from, write_wheel

pytestmark = pytest.mark.slow

APP = """
import sys
from faas import inference_function

@inference_function(requirements=["tiny-one"])
class Doubles:
    def setup(self):
        import tiny_one
        self.factor = tiny_one.FACTOR
    def predict(self, x: int) -> list[str]:
        import tiny_one
        return [str(x * self.factor), sys.prefix, str("pytest" in sys.modules)]

@inference_function
def here(x: int) -> str:
    return sys.prefix
"""


def test_functions_of_one_file_are_served_each_by_an_interpreter_that_has_what_it_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_from(monkeypatch, tmp_path / "wheels")
    write_wheel(tmp_path / "wheels", "tiny_one", "1", code="FACTOR = 2\n")
    (tmp_path / "app.py").write_text(APP)
    box = bring_up(tmp_path / "home", str(tmp_path / "app.py"))
    try:
        doubled, prefix, _ = box.call("doubles", 21).json()
        assert doubled == "42"
        assert Path(prefix).parent == tmp_path / "home" / "environments"
        assert not Path(box.call("here", 1).json()).is_relative_to(tmp_path)
        (instance,) = box.instances("doubles")
        assert instance["how"] in ("fork", "parked")
        assert os.fsencode(prefix) in Path(f"/proc/{instance['pid']}/cmdline").read_bytes()
    finally:
        take_down(box)


IRIS = """
import numpy as np
from faas import Batching, inference_function

@inference_function(batching=Batching(max_batch_size=64), requirements=["scikit-learn", "humanize<4.12"])
class Iris:
    def setup(self):
        from sklearn.datasets import load_iris
        from sklearn.ensemble import RandomForestClassifier
        data = load_iris()
        self.names = list(data.target_names)
        self.model = RandomForestClassifier(5, random_state=0).fit(data.data, data.target)
    def predict(self, rows: np.ndarray) -> list[str]:
        return [str(self.names[i]) for i in self.model.predict(rows)]
"""


@pytest.mark.slow
def test_a_forest_of_the_index_is_served_from_a_fork(tmp_path: Path) -> None:
    (tmp_path / "iris.py").write_text(IRIS)
    box = bring_up(tmp_path / "home", str(tmp_path / "iris.py"))
    try:
        assert box.call("iris", [5.1, 3.5, 1.4, 0.2]).json() == "setosa"
        (instance,) = box.instances("iris")
        assert instance["how"] in ("fork", "parked")
        folder = tmp_path / "home" / "environments"
        assert os.fsencode(folder) in Path(f"/proc/{instance['pid']}/cmdline").read_bytes()
    finally:
        take_down(box)
