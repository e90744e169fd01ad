"""What cannot travel is named, with what to do."""
# ruff: noqa: E501 (users' code as text)

from __future__ import annotations

import json

import pytest

from tests.bundle.conftest import run, said, script

SCRIPT = """
import json, sys, threading, socket, sqlite3
from pathlib import Path
import numpy as np
from faas import bundle, inference_function

{setting}

@inference_function
def f(x: int) -> str:
    return str({used})

try:
    bundle.make(f, Path(sys.argv[1]), verify=False)
except bundle.Unbundleable as error:
    print(json.dumps([str(error), error.variable, error.remedy]))
else:
    print(json.dumps("it was packed"))
"""
CASES = {
    "lock": ("guard = threading.Lock()", "guard", "the global guard", "lock", "setup()"),
    "lock of its owner": ("guard = threading.RLock()", "guard", "the global guard", "RLock", "make it in setup()"),
    "lock of processes": (
        "import multiprocessing\nguard = multiprocessing.Lock()",
        "guard",
        "the global guard",
        "Lock objects",
        "make it in setup()",
    ),
    "open file": ("log = open('/dev/null')", "log", "the global log", "open file", "include="),
    "socket": ("conn = socket.socket()", "conn", "the global conn", "socket", "connect in setup()"),
    "database": ("db = sqlite3.connect(':memory:')", "db", "the global db", "Connection", "connect in setup()"),
    "generator": ("rows = (i for i in range(3))", "next(rows)", "the global rows", "generator", "where it is used"),
    "array": ("table = np.zeros(2_000_000)", "table[x]", "the global table", "16.0 MB", "setup()"),
    "text": ("text = 'x' * 9_000_000", "text[x]", "the global text", "9.0 MB", "setup()"),
    "within an object": (
        "class Client:\n    def __init__(self): self.guard = threading.Lock()\nclient = Client()",
        "client.guard",
        "the global client.guard",
        "lock",
        "setup()",
    ),
    "in a dict": ("cache = {'a': {'b': threading.Lock()}}", "cache", "the global cache['a']['b']", "lock", "setup()"),
    "in a closure": (
        "def build():\n    held = threading.Lock()\n    def inner(): return held\n    return inner\ninner = build()",
        "inner()",
        "the closure variable held",
        "lock",
        "setup()",
    ),
    "of a class": (
        "class Pool:\n    guard = threading.Lock()\n    def go(self): return self.guard",
        "Pool().go()",
        "the global Pool.guard",
        "lock",
        "setup()",
    ),
    "a tensor on a device": (
        "import torch\ntable = {'w': torch.empty(2, device='meta')}",
        "table",
        "the global table['w']",
        "on meta",
        "setup()",
    ),
    "a default": ("def g(held=threading.Lock()): return held", "g()", "the default value 0", "lock", "setup()"),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """What was said of each, all of them packed in one process, one after the other."""
    folder = tmp_path_factory.mktemp("refusals")
    for number, (setting, used, *_) in enumerate(CASES.values()):
        (folder / f"case{number}.py").write_text(SCRIPT.replace("{setting}", setting).replace("{used}", used))
    runner = "import contextlib, io, json, runpy, sys, types\nanswers = []\n"
    runner += f"sys.argv[1:] = [{str(folder / 'b')!r}]\n"
    runner += (
        f"for n in range({len(CASES)}):\n"
        "    out = io.StringIO()\n"
        "    sys.modules['__main__'] = main = types.ModuleType('__main__')\n"
        "    with contextlib.redirect_stdout(out):\n"
        f"        exec(compile(open({str(folder)!r} + f'/case{{n}}.py').read(), f'case{{n}}.py', 'exec'), main.__dict__)\n"
        "    answers.append(json.loads(out.getvalue()))\n"
        "print(json.dumps(answers))\n"
    )
    (folder / "runner.py").write_text(runner)
    answers = said(run("-W", "ignore::ResourceWarning", str(folder / "runner.py")))
    found = dict(zip(CASES, answers, strict=True))
    assert not (folder / "b").exists()
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_travel_is_named(refused, name):
    _, _, variable, what, remedy = CASES[name]
    assert refused[name] != "it was packed"
    message, named, then = refused[name]
    assert named == variable
    assert what in message
    assert remedy in then


def test_a_folder_with_something_else_in_it_is_left_alone(project):
    (project / "app.py").write_text(
        "from faas import inference_function\n@inference_function\ndef f(x: int) -> int: return x\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", ".", cwd=project)
    assert done.returncode == 1
    assert "has something else in it" in done.stderr
    assert (project / "app.py").is_file()


def test_what_user_code_prints_is_no_part_of_the_answer(project):
    (project / "app.py").write_text(
        "print('loading')\nfrom faas import inference_function\n@inference_function\ndef f(x: int) -> int: return x\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", "b", "--json", cwd=project)
    assert json.loads(done.stdout)["name"] == "f"
    assert done.stderr == "loading\n"


def test_hidden_files_and_environments_are_not_meant_by_a_star(project, tmp_path):
    for path in (".env", ".git/config", "assets/a.txt", "assets/.b", "venv/pyvenv.cfg", "venv/lib/x.txt", ".cfg/c.txt"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(path)
    (project / "app.py").write_text(
        "from faas import inference_function\n@inference_function\ndef f(x: int) -> int: return x\n"
    )
    found = script(
        project,
        "import json\nfrom pathlib import Path\nfrom faas import bundle\nfiles = []\n"
        "for patterns in (['**'], ['.'], ['assets/**'], ['**/*.txt', '.env'], ['.cfg'], ['.c*/*.txt']):\n"
        f"    made = bundle.make('app.py', Path({str(tmp_path)!r}) / 'b', include=patterns, verify=False, fresh=True)\n"
        "    files.append([path.removeprefix('code/') for path in made.files])\n"
        "print(json.dumps(files))\n",
    )
    everything, here, below, named, hidden, starred = (set(one) - {"app.py", "main.py"} for one in found)
    assert everything == here == below == {"assets/a.txt"}
    assert named == {"assets/a.txt", ".env"}
    assert hidden == starred == {".cfg/c.txt"}


def test_a_file_that_is_opened_by_the_current_folder_is_refused_with_what_to_do(project, tmp_path):
    (project / "labels.txt").write_text("cat")
    (project / "app.py").write_text(
        "from faas import inference_function\nLABEL = open('labels.txt').read()\n"
        "@inference_function(include=['labels.txt'])\ndef f(n: int) -> str: return LABEL\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", str(tmp_path / "b"), cwd=project)
    assert done.returncode == 1
    assert "labels.txt" in done.stderr
    assert "open it by Path(__file__).parent" in done.stderr


def test_a_file_beside_a_package_is_noted_by_where_it_goes(project):
    (project / "aid").mkdir()
    (project / "aid" / "__init__.py").write_text("")
    (project / "aid" / "labels.txt").write_text("cat")
    (project / "aid" / "util.py").write_text(
        "from pathlib import Path\ndef label(): return (Path(__file__).parent / 'labels.txt').read_text()\n"
    )
    (project / "app.py").write_text(
        "from faas import inference_function\nfrom aid.util import label\n"
        "@inference_function\ndef f(n: int) -> str: return label()\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", "b", cwd=project)
    assert "aid/util.py names 'labels.txt'" in done.stderr
    assert "include='aid/labels.txt'" in done.stderr
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", "b", "--include", "aid/labels.txt", cwd=project)
    assert done.stderr == ""
    assert (project / "b" / "code" / "aid" / "labels.txt").read_text() == "cat"


PACKS = """
import json
from pathlib import Path
from faas import bundle
told = []
for number, patterns in enumerate(([], ["*.txt"], ["*.bin"], ["../*"])):
    try:
        made = bundle.make("app.py", Path(f"b{number}"), include=patterns, verify=False, fresh=True)
        told.append([sorted(made.files), list(made.notes)])
    except bundle.Unbundleable as error:
        told.append(str(error))
print(json.dumps([told, bundle.load(Path("b1")).local(1)]))
"""


def test_files_beside_the_code_travel_when_asked_for_and_are_noted_when_not(project):
    (project / "labels.txt").write_text("cat\ndog\n")
    (project / "assets").mkdir()
    (project / "assets" / "one.json").write_text("[1]")
    (project / "app.py").write_text(
        "from pathlib import Path\nfrom faas import inference_function\n"
        "@inference_function(include=['assets'])\n"
        "def f(n: int) -> str: return (Path(__file__).parent / 'labels.txt').read_text().split()[n]\n"
    )
    (bare, noted, unmatched, outside), answer = script(project, PACKS)
    assert answer == "dog"
    assert bare[0] == ["code/app.py", "code/assets/one.json"]
    assert "names 'labels.txt', which lies beside it and does not travel: include='labels.txt'" in bare[1][0]
    assert noted == [["code/app.py", "code/assets/one.json", "code/labels.txt"], []]
    assert "matches no file" in unmatched
    assert "is not below the folder" in outside
