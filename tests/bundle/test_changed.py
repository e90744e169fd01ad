"""Globals of modules that have changed since they were imported: values of when it was packed (CP-04)."""
# ruff: noqa: E501 (users' code as text)

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.bundle.conftest import answers, script
from tests.bundle.test_cases import PACKED

MAKES = "made = bundle.make(f, Path({into!r}) / 'b')\nimport json\nprint(json.dumps(made.notes))\n"


def packed(project: Path, into: Path, files: dict[str, str], main: str) -> tuple[list[str], Any]:
    """Run a script that packs its function `f`; returns what is noted and what the function answers elsewhere."""
    for name, text in files.items():
        (project / name).write_text(text)
    notes = script(project, PACKED + main + MAKES.replace("{into!r}", repr(str(into))))
    shutil.rmtree(project)
    return notes, answers(into, {"b": [{"x": 1}]})["b"]


def test_cp_04_what_was_put_into_objects_of_a_module_travels(project: Path, tmp_path: Path) -> None:
    files = {
        "app.py": "import dataclasses, numpy as np\nfrom pathlib import Path\nfrom decimal import Decimal\n"
        "@dataclasses.dataclass\nclass Config:\n    t: float = 0.5\n    tags: list = dataclasses.field(default_factory=list)\n"
        "CONFIG, OTHER, W, WHERE, ONE = Config(), Config(), np.zeros(3), Path('a'), Decimal(1)\nHELD = {'c': CONFIG}\n"
        "def use(): return [CONFIG.t, CONFIG.tags, W.tolist(), str(WHERE), str(ONE), OTHER.t, HELD['c'] is CONFIG]\n"
    }
    main = (
        "import app, decimal\napp.CONFIG.t = 0.9\napp.CONFIG.tags.append('x')\napp.W += 1\n"
        "app.WHERE, app.ONE = Path('b'), decimal.Decimal(2)\n"
        "@inference_function\ndef f(x: int) -> list: return app.use()\n"
    )
    assert packed(project, tmp_path, files, main) == ([], [[0.9, ["x"], [1.0, 1.0, 1.0], "b", "2", 0.5, True]])


def test_cp_04_functions_that_a_script_registers_with_a_module_travel(project: Path, tmp_path: Path) -> None:
    files = {
        "tools.py": "TOOLS = {}\ndef tool(fn):\n    TOOLS[fn.__name__] = fn\n    return fn\n"
        "@tool\ndef own(x): return x\ndef run(name, x): return TOOLS[name](x)\n",
        "other.py": "from tools import TOOLS\ndef names(): return sorted(TOOLS)\n",
    }
    main = (
        "from tools import tool, run\nimport tools, other\nK = 3\n@tool\ndef mine(x): return x * K\n"
        "@inference_function\ndef f(x: int) -> list:\n"
        "    return [run('mine', x), run('own', x), other.names(), other.TOOLS is tools.TOOLS]\n"
    )
    assert packed(project, tmp_path, files, main) == ([], [[3, 1, ["mine", "own"], True]])


def test_cp_04_what_has_changed_and_cannot_travel_is_noted_and_made_anew(project: Path, tmp_path: Path) -> None:
    files = {
        "app.py": "import threading, numpy as np\nclass Client:\n    def __init__(self): self.lock, self.n = threading.Lock(), 0\n"
        "    def hit(self):\n        with self.lock: self.n += 1\n        return self.n\n"
        "client, TABLE = Client(), np.zeros(2_000_000)\n"
    }
    main = (
        "import app\napp.client.hit()\napp.TABLE += 1\n"
        "@inference_function\ndef f(x: int) -> list: return [app.client.hit(), float(app.TABLE[0])]\n"
    )
    notes, answer = packed(project, tmp_path, files, main)
    assert answer == [[1, 0.0]]
    assert [note.partition(" has changed since app was imported, and is made anew there: ")[0] for note in notes] == [
        "app.client",
        "app.TABLE",
    ]
    assert "lock" in notes[0]
    assert "16.0 MB" in notes[1]


def test_a_secret_of_the_environment_that_would_travel_is_named(project: Path, tmp_path: Path) -> None:
    main = (
        "import os\nos.environ['HUB_TOKEN'], os.environ['PLACE'] = 'hf_abc' + 'defg', 'some' + 'where'\n"
        "HEADERS, PLACE = {'Authorization': 'Bearer ' + os.environ['HUB_TOKEN']}, os.environ['PLACE']\n"
        "@inference_function\ndef f(x: int) -> list: return [len(HEADERS), PLACE]\n"
    )
    notes, answer = packed(project, tmp_path, {}, main)
    assert answer == [[1, "somewhere"]]
    (note,) = notes
    assert note.startswith("the value of HUB_TOKEN, a variable of this environment, travels in the bundle")
    assert "hf_abc" not in json.dumps(notes)
