"""Functions made ready for real: processes that import, set up, freeze, thaw and compare."""

import asyncio
import os
import subprocess
import textwrap
from importlib import metadata
from pathlib import Path

import pytest

import snapshot
from faas.errors import TargetError
from faas.preparation import Preparations
from faas.prepare import close, prepare
from tests.wheels import only_from


@pytest.fixture
def write(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()

    def write(text, name="app.py"):
        path = folder / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


def made(target, store, **options):
    steps = []
    return asyncio.run(prepare(target, store, progress=steps.append, **options)), steps


STATEFUL = """
    from faas import inference_function
    from packaging.version import Version
    import helper

    FACTOR = 1

    @inference_function(warmup=[2, 3])
    class Scale:
        def setup(self):
            global FACTOR
            FACTOR = 7
            self.offset = helper.OFFSET
            self.since = Version("1")
        def predict(self, x: int) -> int:
            return x * FACTOR + self.offset

    @inference_function
    def twice(x: int) -> int:
        return 2 * x
"""


def test_state_is_frozen_with_the_globals_that_setup_bound_and_compared(write, tmp_path):
    write("OFFSET = 100", "helper.py")
    target = write(STATEFUL)
    (scale, twice), steps = made(target, tmp_path / "store")
    assert (scale.name, scale.reason, scale.compared) == ("scale", None, True)
    assert (twice.name, twice.compared) == ("twice", False)
    assert scale.snapshot is not None
    assert scale.libraries == {"packaging": metadata.version("packaging")}
    assert twice.libraries == {}
    assert any(path.endswith("helper.py") for path in scale.origin.sources)
    assert "msgspec" in scale.imports
    assert "helper" not in scale.imports
    assert "app" not in scale.imports
    assert any("scale is ready" in step for step in steps)


def test_what_is_fresh_is_not_made_again_and_what_changed_is(write, tmp_path):
    target = write("""
        from faas import inference_function
        @inference_function
        def one(x: int) -> int:
            return x
    """)
    (first,), _ = made(target, tmp_path)
    (again,), steps = made(target, tmp_path)
    assert again == first
    assert steps == []
    write("""
        from faas import inference_function
        @inference_function
        def one(x: int) -> int:
            return x + 1
        @inference_function
        def two(x: int) -> int:
            return x
    """)
    assert "has changed" in Preparations(tmp_path).read("one").stale()
    both, steps = made(target, tmp_path)
    assert [p.name for p in both] == ["one", "two"]
    assert steps
    assert both[0].revision != first.revision


@pytest.mark.slow
def test_a_snapshot_of_an_older_format_is_made_again(write, tmp_path):
    target = write("""
        from faas import inference_function
        @inference_function
        class Adds:
            def setup(self):
                self.n = 1
            def predict(self, x: int) -> int:
                return x + self.n
    """)
    (first,), _ = made(target, tmp_path)
    manifest = Path(first.snapshot) / "manifest.json"
    content = manifest.read_bytes()
    manifest.unlink()
    manifest.write_bytes(content.replace(b'"format_version":2', b'"format_version":1'))
    assert "format version 1" in Preparations(tmp_path).read("adds").stale()
    manifest.write_bytes(content[:-1])
    assert "is damaged" in Preparations(tmp_path).read("adds").stale()
    manifest.write_bytes(content.replace(b'"format_version":2', b'"format_version":1'))
    (again,), steps = made(target, tmp_path)
    assert steps
    assert again.stale() is None


def test_state_that_cannot_be_frozen_is_named_and_setup_runs_instead(write, tmp_path):
    target = write("""
        import socket
        from faas import inference_function
        @inference_function
        class Holds:
            def setup(self):
                self.parts = {"client": socket.socket()}
            def predict(self, x: int) -> int:
                return x
    """)
    (holds,), steps = made(target, tmp_path)
    assert holds.snapshot is None
    assert "parts" in holds.reason
    assert "client" in holds.reason
    assert "socket" in holds.reason
    assert any("instances run setup()" in step for step in steps)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_what_a_full_disk_kept_from_being_frozen_is_made_ready_again(write, tmp_path):
    target, store = (
        write("""
        from faas import inference_function
        @inference_function
        class Large:
            def setup(self):
                self.bytes = bytearray(2**21)
            def predict(self, x: int) -> int:
                return len(self.bytes) + x
    """),
        tmp_path / "small",
    )
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", store], check=True)
    try:
        (large,), _ = made(target, store)
        assert large.snapshot is None
        assert "No space left" in large.reason
        subprocess.run(["mount", "-o", "remount,size=64m", store], check=True)
        (large,), _ = made(target, store)
        assert (large.reason, large.snapshot is None) == (None, False)
        assert made(target, store)[1] == []
    finally:
        subprocess.run(["umount", store], check=True)


def test_a_handler_whose_parts_refer_to_it_is_frozen_and_is_still_theirs(write, tmp_path):
    target = write("""
        import os
        from faas import inference_function
        class Part:
            def __init__(self, owner):
                self.owner = owner
        @inference_function(warmup=[1])
        class Owner:
            def setup(self):
                os.environ["OWNED_BY"] = "me"
                self.count, self.steps, self.part = 0, [self.step], Part(self)
            def step(self):
                self.count += 1
            def predict(self, x: int) -> list:
                self.steps[0]()
                return [self.part.owner is self, self.count, os.environ.get("OWNED_BY")]
    """)
    (owner,), _ = made(target, tmp_path)
    assert (owner.reason, owner.compared) == (None, True)


def test_what_setup_set_for_the_whole_process_is_told_and_setup_runs_instead(write, tmp_path):
    target = write("""
        from faas import inference_function
        @inference_function
        class Wide:
            def setup(self):
                import torch
                torch.set_default_dtype(torch.float64)
            def predict(self, x: float) -> str:
                import torch
                return str(torch.tensor(x).dtype)
    """)
    (wide,), _ = made(target, tmp_path)
    assert wide.snapshot is None
    assert wide.reason == "setup() set torch's default dtype for the whole process: set it in after_thaw()"


def test_state_that_answers_differently_is_not_used(write, tmp_path):
    target = write("""
        import os
        from faas import inference_function
        @inference_function(warmup=[1])
        class Pid:
            def setup(self):
                self.pid = os.getpid()
            def predict(self, x: int) -> bool:
                return self.pid == os.getpid()
    """)
    (pid,), _ = made(target, tmp_path)
    assert pid.snapshot is None
    assert "answers the examples differently" in pid.reason


def test_l16_an_example_that_the_handler_fails_on_is_told(write, tmp_path):
    target = write("""
        from faas import inference_function
        @inference_function(warmup=[2, 0])
        def inverse(x: int) -> float:
            return 1 / x
    """)
    with pytest.raises(TargetError) as caught:
        made(target, tmp_path)
    told = str(caught.value)
    assert "inverse: on warmup[1] it raised ZeroDivisionError: division by zero (" in told
    assert "app.py:5)" in told
    assert "no instance would start" in told


def test_an_example_may_need_what_is_not_here(write, tmp_path):
    target = write("""
        from faas import inference_function
        @inference_function(warmup=[1])
        def reads(x: int) -> str:
            return open("/nowhere/at/all").read()
    """)
    (reads,), _ = made(target, tmp_path)
    assert (reads.reason, reads.compared) == (None, True)


def test_after_thaw_makes_what_must_be_fresh(write, tmp_path):
    target = write("""
        import os
        from faas import inference_function
        @inference_function(warmup=[1])
        class Pid:
            def setup(self):
                self.after_thaw()
            def after_thaw(self):
                self.pid = os.getpid()
            def predict(self, x: int) -> bool:
                return self.pid == os.getpid()
    """)
    (pid,), _ = made(target, tmp_path)
    assert pid.reason is None
    assert pid.compared


@pytest.mark.slow
def test_setup_runs_in_the_functions_own_environment_variables(write, tmp_path):
    target = write("""
        import os
        from faas import inference_function
        @inference_function(env={"SIZE": "large"}, warmup=[1])
        class Sized:
            def setup(self):
                self.size = os.environ["SIZE"]
            def predict(self, x: int) -> str:
                return self.size
    """)
    (sized,), _ = made(target, tmp_path)
    assert sized.description.env == {"SIZE": "large"}
    assert sized.compared


def test_a_state_thaws_in_the_functions_own_environment_variables(write, tmp_path):
    target = write("""
        import os
        from faas import inference_function
        @inference_function(env={"API": "http://api.example"}, warmup=[1])
        class Asks:
            def after_thaw(self):
                self.base = os.environ["API"]
            def predict(self, x: int) -> str:
                return self.base
    """)
    (asks,), _ = made(target, tmp_path)
    assert (asks.reason, asks.compared) == (None, True)


@pytest.mark.slow
def test_what_a_function_requires_must_be_there_to_be_installed(write, tmp_path, monkeypatch):
    only_from(monkeypatch, tmp_path / "wheels")
    monkeypatch.setenv("FAAS_HOME", str(tmp_path / "home"))
    target = write("""
        from faas import inference_function
        @inference_function(requirements=["msgspec", "no-such-thing-here"])
        def f(x: int) -> int:
            return x
    """)
    with pytest.raises(TargetError, match="pip finds no no-such-thing-here"):
        made(target, tmp_path)


def test_snapshots_can_be_off(write, tmp_path):
    target = write("""
        from faas import inference_function
        @inference_function(snapshot="off")
        def f(x: int) -> int:
            return x
    """)
    (f,), _ = made(target, tmp_path)
    assert (f.snapshot, f.reason) == (None, 'snapshot="off"')


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def setup(self): raise RuntimeError('no such model')", "Fails.setup() raised RuntimeError: no such model ("),
        ("def setup(self): import os; os._exit(3)", "ended with status 3 while setting up"),
    ],
)
def test_a_setup_that_fails_says_how(write, tmp_path, body, words):
    target = write(f"""
        from faas import inference_function
        @inference_function
        class Fails:
            {body}
            def predict(self, x: int) -> int:
                return x
    """)
    with pytest.raises(TargetError) as caught:
        made(target, tmp_path)
    assert words in str(caught.value)


def test_a_store_that_cannot_be_written_says_what_to_choose(write, tmp_path):
    target = write("from faas import inference_function")
    (tmp_path / "file").write_text("")
    with pytest.raises(TargetError, match="--store"):
        made(target, tmp_path / "file" / "store")


def test_numbers_are_compared_with_a_tolerance():
    assert close([1.0, {"a": 2.00001}], [1, {"a": 2.0}])
    assert not close([1.0], [1.1])
    assert not close({"a": 1}, {"b": 1})
    assert not close([1], [1, 2])
    assert not close("a", "b")


def test_what_setup_imports_is_not_taken_for_what_it_bound(write, tmp_path):
    late = """
        from os import path
        class Kept: ...
        LIMIT, SEEN, CHANGED = 3, [], 0
        def init():
            globals().update(CHANGED=5)
    """
    write(late, "late.py")
    target = write("""
        from faas import inference_function
        @inference_function(warmup=[2])
        class Adds:
            def setup(self):
                import late
                late.init()
                late.SEEN.append(1)
                self.limit = late.LIMIT
            def predict(self, x: int) -> int:
                import late
                return x + late.CHANGED + len(late.SEEN)
    """)
    (adds,), _ = made(target, tmp_path / "store")
    assert (adds.reason, adds.compared) == (None, True)
    assert snapshot.thaw(Path(adds.snapshot)).state["globals"] == {"late": {"CHANGED": 5, "SEEN": [1]}}
