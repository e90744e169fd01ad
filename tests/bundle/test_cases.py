"""The field's cases of packaging code."""
# ruff: noqa: E501 (users' code as text)

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.bundle.conftest import answers, run, said, script
from tests.bundle.shapes import HEAD

PACKED = "from pathlib import Path\nfrom faas import bundle, inference_function\n"


def test_cp_01_a_helper_module_travels(project, tmp_path):
    (project / "helpers").mkdir()
    (project / "helpers" / "__init__.py").write_text("")
    (project / "helpers" / "consts.py").write_text("K = 5\n")
    (project / "helpers" / "util.py").write_text("from .consts import K\ndef add(a, b): return a + b + K\n")
    script(
        project,
        PACKED + "from helpers.util import add\n"
        "@inference_function\ndef f(a: int, b: int) -> int: return add(a, b)\n"
        "if __name__ == '__main__':\n"
        f"    bundle.make(f, Path({str(tmp_path)!r}) / 'script', verify=False)\n"
        f"    bundle.make('main.py:f', Path({str(tmp_path)!r}) / 'target')\n"
        "    print(0)\n",
    )
    shutil.rmtree(project)
    body = {"a": 1, "b": 2}
    assert answers(tmp_path, {"script": [body], "target": [body]}) == {"script": [8], "target": [8]}


def test_cp_01_modules_are_found_in_the_folder_that_an_interactive_interpreter_is_in(project, tmp_path):
    (project / "app.py").write_text(
        "from faas import inference_function\n@inference_function\ndef f(a: int) -> int: return a + 1\n"
    )
    typed = f"from pathlib import Path; from faas import bundle; from app import f; bundle.make(f, Path({str(tmp_path)!r}) / 'typed')"
    done = run("-c", typed, cwd=project)  # its path begins with "", as a notebook's does
    assert done.returncode == 0, done.stderr
    assert answers(tmp_path, {"typed": [1]}) == {"typed": [2]}


@pytest.mark.slow
def test_cp_01_a_module_by_a_made_up_name_is_found_by_loading_elsewhere(project, tmp_path):
    (project / "plugins").mkdir()
    (project / "plugins" / "one.py").write_text("K = 1\n")
    (project / "app.py").write_text(
        HEAD + "import importlib\nplugins = {n: importlib.import_module('.'.join(['plugins', n])).K for n in ['one']}\n"
        "@inference_function\ndef f(n: str) -> int: return plugins[n]\n"
    )
    script(
        project,
        f"from faas import bundle\nfrom pathlib import Path\nbundle.make('app.py', Path({str(tmp_path)!r}) / 'b')\nprint(0)\n",
    )
    shutil.rmtree(project)
    assert answers(tmp_path, {"b": [{"n": "one"}]}) == {"b": [1]}


def test_cp_01_a_file_whose_name_no_import_can_write_travels(project, tmp_path):
    (project / "aid.py").write_text("K = 5\n")
    (project / "my-app 2.py").write_text(
        HEAD + "import aid\n@inference_function\ndef f(x: int) -> int: return x + aid.K\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "my-app 2.py:f", "-o", str(tmp_path / "b"), cwd=project)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(project)
    assert answers(tmp_path, {"b": [{"x": 1}]}) == {"b": [6]}


def test_cp_01_modules_that_are_imported_by_a_name_made_up_in_predict_travel(project, tmp_path):
    (project / "plugins").mkdir()
    (project / "plugins" / "one.py").write_text("from .aid import K\n")
    (project / "plugins" / "aid.py").write_text("K = 1\n")
    (project / "app.py").write_text(
        HEAD + "import importlib\n@inference_function\n"
        "def f(n: str) -> int: return importlib.import_module(f'plugins.{n}').K\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", str(tmp_path / "b"), cwd=project)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(project)
    assert answers(tmp_path, {"b": [{"n": "one"}]}) == {"b": [1]}


def test_cp_01_what_cannot_be_had_elsewhere_is_refused_by_name(project, tmp_path):
    found = script(
        project,
        PACKED + "import sys, types\n"
        "ghost = types.ModuleType('ghost')\nghost.__spec__ = __import__('importlib.machinery').machinery.ModuleSpec('ghost', None)\n"
        "ghost.K = 1\nsys.modules['ghost'] = ghost\n"
        "(Path('app.py')).write_text('from faas import inference_function\\nfrom ghost import K\\n"
        "@inference_function\\ndef f(x: int) -> int: return x + K\\n')\n"
        "import json\n"
        f"try: bundle.make('app.py', Path({str(tmp_path)!r}) / 'b')\n"
        "except bundle.Unbundleable as error: print(json.dumps(str(error)))\n",
    )
    assert "No module named 'ghost'" in found
    assert not (tmp_path / "b").exists()
    assert list(tmp_path.glob(".staging*")) == []


def test_cp_01_relative_imports_of_a_script_that_is_run_as_a_module_travel(project, tmp_path):
    (project / "pkg").mkdir()
    (project / "pkg" / "__init__.py").write_text("")
    (project / "pkg" / "util.py").write_text("K = 5\n")
    (project / "pkg" / "main.py").write_text(
        PACKED + "@inference_function\ndef f(x: int) -> int:\n    from . import util\n    return x + util.K\n"
        f"bundle.make(f, Path({str(tmp_path)!r}) / 'b')\n"
    )
    done = run("-c", "import runpy; runpy.run_module('pkg.main', run_name='__main__', alter_sys=True)", cwd=project)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(project)
    assert answers(tmp_path, {"b": [{"x": 1}]}) == {"b": [6]}


def test_cp_01_a_module_with_a_name_of_pythons_own_travels_where_it_is_the_one_that_is_imported(project, tmp_path):
    (project / "test").mkdir()
    (project / "test" / "__init__.py").write_text("")
    (project / "test" / "deep.py").write_text("from profile import K\n")
    (project / "profile.py").write_text("K = 5\n")
    (project / "app.py").write_text(
        HEAD + "import json\nfrom test.deep import K\n@inference_function\ndef f(x: int) -> int: return x + K\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", str(tmp_path / "b"), cwd=project)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "b" / "code" / "json").exists()
    shutil.rmtree(project)
    assert answers(tmp_path, {"b": [{"x": 1}]}) == {"b": [6]}


def test_cp_01_a_project_installed_from_its_source_is_known_there_and_keeps_its_files(project, tmp_path):
    """As `pip install -e` leaves it: its modules lie in no installation, and what is known of it lies in one."""
    package, known = project / "src" / "mine", project / "site" / "my_pkg-1.2.3.dist-info"
    (package / "data").mkdir(parents=True)
    known.mkdir(parents=True)
    (package / "data" / "labels.txt").write_text("cat")
    (package / "__init__.py").write_text(
        "from importlib import metadata, resources\nVERSION = metadata.version('my-pkg')\n"
        "def label(): return resources.files('mine').joinpath('data/labels.txt').read_text()\n"
    )
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: my-pkg\nVersion: 1.2.3\n")
    (known / "direct_url.json").write_text(json.dumps({"url": project.as_uri(), "dir_info": {"editable": True}}))
    (project / "app").mkdir()
    (project / "app" / "app.py").write_text(
        HEAD + "import mine\n@inference_function(include=['mine/data'])\n"
        "def f(x: int) -> list: return [mine.VERSION, mine.label()]\n"
    )
    into = str(tmp_path / "b")
    searched = f"{project / 'src'}:{project / 'site'}"
    done = run("-m", "faas.cli.main", "bundle", "app/app.py", "-o", into, cwd=project, PYTHONPATH=searched)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(project)
    assert answers(tmp_path, {"b": [{"x": 1}]}) == {"b": [["1.2.3", "cat"]]}


def test_cp_01_a_folder_that_is_installed_in_part_travels_in_part(project, tmp_path):
    """As `google` is, in which installed packages lie, and modules of the user's own."""
    (project / "google").mkdir()
    (project / "google" / "mine.py").write_text(
        "from google.protobuf import struct_pb2\nNULL = struct_pb2.NULL_VALUE\n"
    )
    (project / "app.py").write_text(
        HEAD + "import google.protobuf\nfrom google import mine\n"
        "@inference_function\ndef f(x: int) -> list: return [x + mine.NULL, google.protobuf is not None]\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", str(tmp_path / "b"), cwd=project)
    assert done.returncode == 0, done.stderr
    made = json.loads((tmp_path / "b" / "bundle.json").read_text())
    assert sorted(made["files"]) == ["code/app.py", "code/google/mine.py"]
    assert list(made["libraries"]) == ["protobuf"]
    shutil.rmtree(project)
    assert answers(tmp_path, {"b": [{"x": 1}]}) == {"b": [[1, True]]}


def test_cp_01_what_is_installed_into_a_folder_of_its_own_is_not_the_users(project, tmp_path):
    """As by `pip install --target`, with the folder named in `PYTHONPATH`."""
    (tmp_path / "libs" / "mine-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "libs" / "mine-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n"
    )
    (tmp_path / "libs" / "mine.py").write_text("K = 5\n")
    (project / "app.py").write_text(
        HEAD + "import mine\n@inference_function\ndef f(x: int) -> int: return x + mine.K\n"
    )
    bundled = ("-m", "faas.cli.main", "bundle", "app.py", "-o", str(tmp_path / "b"))
    done = run(*bundled, cwd=project, PYTHONPATH=str(tmp_path / "libs"))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "b" / "code").iterdir()) == ["app.py"]


def test_cp_01_modules_that_a_package_finds_in_its_folder_travel(project, tmp_path):
    """As plug-ins that register themselves: without them a package imports well, and knows of none."""
    for package, code in (
        ("kinds", "import importlib, pkgutil\nALL = {}\nfor found in pkgutil.iter_modules(__path__):\n"
                  "    importlib.import_module(f'{__name__}.{found.name}')\n"),
        ("later", "ALL = {}\n"),
    ):  # fmt: skip
        (project / package).mkdir()
        (project / package / "__init__.py").write_text(code)
        (project / package / "deep").mkdir()
        (project / package / "deep" / "__init__.py").write_text(f"from {package} import ALL\nALL['deep'] = 1\n")
        (project / package / "deep" / "two.py").write_text(f"from {package} import ALL\nALL['two'] = 1\n")
        (project / package / "one.py").write_text(f"from {package} import ALL\nALL['one'] = 1\n")
    (project / "app.py").write_text(
        HEAD + "import importlib, pkgutil\nimport kinds, later\n"
        "@inference_function\nclass f:\n    def setup(self):\n"
        "        for found in pkgutil.walk_packages(later.__path__, 'later.'): importlib.import_module(found.name)\n"
        "    def predict(self, x: int) -> list: return [sorted(kinds.ALL), sorted(later.ALL)]\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", str(tmp_path / "b"), cwd=project)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(project)
    assert answers(tmp_path, {"b": [{"x": 1}]}) == {"b": [[["deep", "one"], ["deep", "one", "two"]]]}


def test_cp_01_a_module_that_makes_up_its_attributes_is_not_asked(project, tmp_path):
    (project / "lazy.py").write_text(
        "def __getattr__(n):\n    if n == 'K': return 5\n    raise ModuleNotFoundError(n)\n"
    )
    (project / "app.py").write_text(
        HEAD + "import lazy\n@inference_function\ndef f(x: int) -> int: return x + lazy.K\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", str(tmp_path / "b"), cwd=project)
    assert done.returncode == 0, done.stderr
    assert answers(tmp_path, {"b": [{"x": 1}]}) == {"b": [6]}


def test_cp_01_a_module_for_another_python_that_is_not_imported_travels_as_it_is(project, tmp_path):
    (project / "new.py").write_text("type Number = int\n")
    (project / "app.py").write_text(
        HEAD + "import sys\nif sys.version_info >= (4,):\n    import new\n"
        "@inference_function\ndef f(x: int) -> int: return x\n"
    )
    done = run("-m", "faas.cli.main", "bundle", "app.py", "-o", str(tmp_path / "b"), cwd=project)
    assert done.returncode == 0, done.stderr
    assert answers(tmp_path, {"b": [{"x": 1}]}) == {"b": [1]}
    assert (tmp_path / "b" / "code" / "new.py").is_file()


MARKED = (
    PACKED + "import os\n"
    "class Marks:\n"
    "    def __reduce__(self): return (open, (os.environ['MARKER'], 'w'))\n"
    "marks = None\n"
    "@inference_function\ndef f(x: int) -> str: return str(marks)\n"
    "if __name__ == '__main__':\n"
    "    marks = Marks()\n"
    "    bundle.make(f, Path(os.environ['INTO']), verify=False)\n"
    "    print(0)\n"
)
LOAD = "import sys\nfrom pathlib import Path\nfrom faas import bundle\nbundle.load(Path(sys.argv[1]))\n"


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    """A bundle whose payload leaves a file when it is unpickled."""
    folder = tmp_path_factory.mktemp("marks")
    (folder / "main.py").write_text(MARKED)
    said(run(str(folder / "main.py"), cwd=folder, MARKER=str(folder / "marker"), INTO=str(folder / "b")))
    return folder / "b"


@pytest.fixture
def marked(marks, tmp_path):
    """Loads that bundle with changes to what it says, and tells whether it was unpickled."""
    shutil.copytree(marks, tmp_path / "b")
    marker = marks.with_name("marker")
    marker.unlink(missing_ok=True)
    (tmp_path / "load.py").write_text(LOAD)

    def load(**changes: object):
        manifest = json.loads((tmp_path / "b" / "bundle.json").read_text())
        (tmp_path / "b" / "bundle.json").write_text(json.dumps({**manifest, **changes}))
        done = run(str(tmp_path / "load.py"), str(tmp_path / "b"))
        return done, marker.exists()

    return load


def test_cp_02_another_python_is_refused_before_anything_is_unpickled(marked):
    done, unpickled = marked(python="3.10.2")
    assert done.returncode != 0
    assert "built with Python 3.10.2, and this is Python 3.11" in done.stderr
    assert not unpickled


def test_cp_02_another_patch_level_is_a_warning(marked):
    done, unpickled = marked(python="3.11.999")
    assert done.returncode == 0, done.stderr
    assert "was built with Python 3.11.999, running" in done.stderr
    assert unpickled


@pytest.mark.parametrize(("version", "said"), [("1.2.0", "cloudpickle 1.2.0 ("), ("4.0.0", "cloudpickle 4.0.0 (")])
def test_cp_02_another_cloudpickle_is_refused_before_anything_is_unpickled(marked, version, said):
    done, unpickled = marked(libraries={"cloudpickle": version})
    assert done.returncode != 0
    assert said in done.stderr
    assert not unpickled


def test_cp_02_other_bytes_are_refused_before_anything_is_unpickled(marked, tmp_path):
    path = tmp_path / "b" / "payload.pickle"
    content = path.read_bytes()
    path.write_bytes(content[:-2] + bytes([content[-2] ^ 1]) + content[-1:])
    done, unpickled = marked()
    assert done.returncode != 0
    assert "its digest is another" in done.stderr
    assert not unpickled


IDENTITY = (
    PACKED + "import dataclasses, enum, sys\n"
    "class Mode(enum.Enum):\n    FAST = 'fast'\n    SLOW = 'slow'\n"
    "@dataclasses.dataclass\nclass Req:\n    mode: Mode\n    tags: list[str] = dataclasses.field(default_factory=list)\n"
    "VERSION = VERSION_\n"
    "@inference_function\ndef f(req: Req) -> dict:\n"
    "    assert isinstance(req, Req) and dataclasses.is_dataclass(Req)\n"
    "    return {'fast': req.mode is Mode.FAST, 'version': VERSION, **dataclasses.asdict(req)}\n"
    "if __name__ == '__main__':\n"
    "    bundle.make(f, Path(sys.argv[1]) / f'script{VERSION}', verify=False)\n"
    "    bundle.make('main.py:f', Path(sys.argv[1]) / f'file{VERSION}', verify=False)\n"
)


def test_cp_03_classes_are_one_in_a_process_also_with_two_versions_loaded(project, tmp_path):
    for version in (1, 2):
        (project / "main.py").write_text(IDENTITY.replace("VERSION_", str(version)))
        done = run("main.py", str(tmp_path), cwd=project)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(project)
    bodies = [{"mode": "fast"}, {"mode": "slow", "tags": ["a"]}]
    found = answers(tmp_path, {f"{kind}{version}": bodies for kind in ("script", "file") for version in (1, 2)})
    for name, answered in found.items():
        version = int(name[-1])
        assert answered == [
            {"fast": True, "version": version, "mode": "fast", "tags": []},
            {"fast": False, "version": version, "mode": "slow", "tags": ["a"]},
        ]


def test_cp_03_what_python_has_put_into_a_class_brings_no_copy_of_pythons_own_modules(project, tmp_path):
    """A second `dataclasses` beside the code knows no field of a class that the first one has made."""
    script(
        project,
        PACKED + "import dataclasses, functools, typing\n"
        "class Point(typing.NamedTuple):\n    x: int\n    y: int = 5\n"
        "@functools.total_ordering\n@dataclasses.dataclass\nclass Part:\n    n: int = 1\n"
        "    def __lt__(self, other): return self.n < other.n\n"
        "@inference_function\ndef f(part: Part) -> list:\n    import collections, dataclasses as late\n"
        "    return [late is dataclasses, len(late.fields(part)), part <= Part(9), repr(part), Point(1)._asdict(),\n"
        "            isinstance(collections.Counter(), typing.Counter)]\n"
        f"made = bundle.make(f, Path({str(tmp_path)!r}) / 'b')\nprint(0)\n",
    )
    assert [path.name for path in (tmp_path / "b" / "code").iterdir()] == ["__main__.py"]
    assert answers(tmp_path, {"b": [{"n": 3}]}) == {"b": [[True, 1, True, "Part(n=3)", {"x": 1, "y": 5}, True]]}


@pytest.mark.slow
def test_cp_03_modules_of_two_versions_import_their_own(project, tmp_path):
    (project / "aid").mkdir()
    (project / "app.py").write_text(
        HEAD + "@inference_function\ndef f(x: int) -> int:\n    from aid import late\n    return late.K\n"
    )
    (project / "pack.py").write_text(
        "import sys\nfrom pathlib import Path\nfrom faas import bundle\n"
        "bundle.make('app.py', Path(sys.argv[1]), verify=False, fresh=True)\n"
    )
    for version in (1, 2):
        (project / "aid" / "late.py").write_text(f"K = {version}\n")
        done = run("pack.py", str(tmp_path / f"v{version}"), cwd=project)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(project)
    check = tmp_path / "check.py"
    (tmp_path / "aid").mkdir()
    (tmp_path / "aid" / "late.py").write_text("K = 0\n")
    check.write_text(
        "import json, sys\nfrom pathlib import Path\nimport aid.late\nfrom faas import bundle\n"
        "def own():\n    from aid import late\n    return late.K\n"
        "one, two = (bundle.load(Path(sys.argv[1]) / v) for v in ('v1', 'v2'))\n"
        "again = bundle.load(Path(sys.argv[1]) / 'v1')\n"
        "print(json.dumps([two.local(x=0), one.local(x=0), own(), two.local(x=0), one.local(x=0), again is one]))\n"
    )
    assert said(run(str(check), str(tmp_path))) == [2, 1, 0, 2, 1, True]


def test_cp_04_setup_sets_a_global_that_predict_reads_and_values_are_of_when_it_was_packed(project, tmp_path):
    (project / "config.py").write_text("DEPTH = 1\nNAMES = {'a'}\n")
    script(
        project,
        PACKED + "import config\nMODEL = None\nSCALE = 1\n"
        "@inference_function\nclass f:\n"
        "    def setup(self):\n        global MODEL\n        MODEL = 7\n"
        "    def predict(self, x: int) -> list: return [x + MODEL, SCALE, config.DEPTH, sorted(config.NAMES)]\n"
        "SCALE = 2\nconfig.DEPTH = 3\n"
        f"bundle.make(f, Path({str(tmp_path)!r}) / 'b')\n"
        "SCALE = 100\nconfig.DEPTH = 100\nprint(0)\n",
    )
    shutil.rmtree(project)
    assert answers(tmp_path, {"b": [{"x": 1}]}) == {"b": [[8, 2, 3, ["a"]]]}


def test_cp_04_what_a_module_holds_is_one_for_all_that_have_it(project, tmp_path):
    (project / "state.py").write_text(
        "CACHE, SEEN, MANY = {}, [], {'a'}\ndef fill(): CACHE['k'] = 7; MANY.add('b')\ndef seen(): return SEEN\n"
        "def scale(x): return x\ndef scaled(x): return scale(x)\nclass Base:\n    k = 1\n"
    )
    script(
        project,
        PACKED + "import os, prometheus_client, state\nfrom os import environ\nfrom sys import stderr\n"
        "from prometheus_client import REGISTRY\nfrom state import CACHE, MANY, SEEN, fill, scaled, seen\n"
        "class Other(state.Base):\n    k = 2\n"
        "SEEN.append(1)\nstate.scale = lambda x: x * 10\nstate.Base = Other\n"
        "@inference_function\nclass f:\n    def setup(self): fill()\n"
        "    def predict(self, x: int) -> list:\n        print('here', file=stderr)\n"
        "        return [x + CACHE['k'], sorted(MANY), SEEN, SEEN is seen(), scaled(x), state.Base.k,"
        " environ is os.environ, REGISTRY is prometheus_client.REGISTRY]\n"
        "os.environ['TOKEN'] = 'hunter' + '2'\n"
        f"bundle.make(f, Path({str(tmp_path)!r}) / 'b')\nprint(0)\n",
    )
    shutil.rmtree(project)
    assert answers(tmp_path, {"b": [{"x": 1}]}) == {"b": [[8, ["a", "b"], [1], True, 10, 2, True, True]]}
    assert b"hunter2" not in (tmp_path / "b" / "payload.pickle").read_bytes()


def test_a_traceback_shows_the_lines_of_code_that_travelled(project, tmp_path):
    script(
        project,
        PACKED + "def fail(x): return 1 / x  # here\n"
        "@inference_function\ndef f(x: int) -> float: return fail(x)\n"
        f"bundle.make(f, Path({str(tmp_path)!r}) / 'b')\nprint(0)\n",
    )
    shutil.rmtree(project)
    assert "return 1 / x  # here" in answers(tmp_path, {"b": [{"x": 0}]})["b"]


def test_equal_code_gives_equal_bytes_whatever_the_process_and_the_path(tmp_path):
    source = (
        PACKED + "import dataclasses, enum, sys\nfrom typing import Generic, TypeVar\nT = TypeVar('T')\n"
        "class Mode(enum.Enum):\n    A = 1\n"
        "@dataclasses.dataclass\nclass Req:\n    mode: Mode = Mode.A\n"
        "class Box(Generic[T]): ...\n"
        "NAMES = {'a', 'b', 'c', 'd', Mode.A, None, 1}\n"
        "@inference_function\ndef f(req: Req) -> bool: return req.mode in {'x', 'y', 'zz'} or req.mode in NAMES and bool(Box)\n"
        "if __name__ == '__main__':\n"
        "    bundle.make(f, Path(sys.argv[1]), verify=False)\n"
        "    bundle.pack(Path(sys.argv[1]), Path(sys.argv[1] + '.tar'))\n"
    )
    for seed in ("1", "2"):
        home = tmp_path / f"home{seed}"
        home.mkdir()
        (home / "main.py").write_text(source)
        done = run("main.py", str(tmp_path / seed), cwd=home, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
    assert Path(tmp_path / "1.tar").read_bytes() == Path(tmp_path / "2.tar").read_bytes()
    manifest = (tmp_path / "1" / "bundle.json").read_text()
    assert str(tmp_path) not in manifest + (tmp_path / "1" / "payload.pickle").read_bytes().decode("latin-1")
