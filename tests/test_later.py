"""Imports that are put off until they are used: real files, in a process of their own."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

HEAVY = "LOADED = True\nVALUE = 7\nclass Base:\n    pass\ndef double(x):\n    return 2 * x\n"
PROGRAM = """
import json, sys
sys.path[:0] = sys.argv[1:]
from faas import later
noticing = later.Noticing(["heavy"])
with later.importing_later(["heavy"]):
    import app
told = {"before": "heavy" in sys.modules}
told["answers"] = app.use()
told["after"] = "heavy" in sys.modules
told["late"] = noticing.found.get("heavy", "").rpartition("/")[2]
told["real"] = {k: type(v).__name__ for k, v in vars(app).items() if not k.startswith("__")}
print(json.dumps(told))
"""


def run(folder: Path, app: str) -> dict:
    package = folder / "site-packages" / "heavy"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text(HEAVY)
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "deep.py").write_text("def triple(x):\n    return 3 * x\n")
    (folder / "app.py").write_text(textwrap.dedent(app))
    command = [sys.executable, "-c", PROGRAM, str(folder), str(package.parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("imports", "use", "answer"),
    [
        ("import heavy", "heavy.double(4)", 8),
        ("import heavy as h", "h.VALUE", 7),
        ("from heavy import double", "double(4)", 8),
        ("from heavy import VALUE", "VALUE == 7", True),
        ("import heavy.inner.deep", "heavy.inner.deep.triple(2)", 6),
        ("import heavy.inner.deep as d", "d.triple(2)", 6),
        ("from heavy.inner import deep", "deep.triple(2)", 6),
        ("from heavy.inner.deep import triple as t", "t(2)", 6),
        ("from heavy import Base", "isinstance(Base(), Base)", True),
    ],
)
def test_a_package_is_imported_when_it_is_used(tmp_path: Path, imports: str, use: str, answer: object) -> None:
    told = run(tmp_path, f"{imports}\n\ndef use():\n    return {use}\n")
    assert (told["before"], told["answers"], told["after"]) == (False, answer, True)
    assert told["late"] == "app.py:4"
    assert "Later" not in told["real"].values() or "inner" in imports


def test_what_is_never_used_is_never_imported(tmp_path: Path) -> None:
    told = run(tmp_path, "import heavy\nfrom heavy import Base\n\ndef use():\n    return 1\n")
    assert (told["before"], told["after"], told["late"]) == (False, False, "")


def test_a_class_made_of_one_imports_it_and_the_line_is_told(tmp_path: Path) -> None:
    told = run(tmp_path, "from heavy import Base\n\nclass Mine(Base):\n    pass\n\ndef use():\n    return 1\n")
    assert told["before"] is True
    assert told["late"] == "app.py:3"


def test_other_packages_import_it_as_ever(tmp_path: Path) -> None:
    other = tmp_path / "site-packages" / "other.py"
    other.parent.mkdir()
    other.write_text("import heavy\n")
    told = run(tmp_path, "import other\n\ndef use():\n    return 1\n")
    assert told["before"] is True


def test_no_grad_is_no_reason_to_import_torch(tmp_path: Path) -> None:
    program = """
    import torch

    @torch.inference_mode()
    def first(x):
        return x + 1

    @torch.no_grad
    def second(x):
        with torch.no_grad(), torch.inference_mode():
            return first(x)

    def use():
        return second(1)
    """
    (tmp_path / "app.py").write_text(textwrap.dedent(program))
    script = PROGRAM.replace('"heavy"', '"torch"')
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["answers"], told["after"]) == (2, False)
