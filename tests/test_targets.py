from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from faas import targets
from faas.errors import TargetError
from faas.targets import Target
from faas.users_errors import users_line

ONE = """
from faas import inference_function

@inference_function
def shout(text: str) -> str:
    return text.upper()
"""


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Run in a folder of the test's own; take back what loading leaves in the interpreter."""
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(name: str, text: str = ONE) -> Path:
    path = Path(name).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_gives_what_it_defines_in_order() -> None:
    write("several.py", ONE + ONE.replace("shout", "another") + "alias = shout\n")
    assert [f.name for f in targets.load("several.py")] == ["shout", "another"]


def test_a_file_does_not_serve_what_it_imports() -> None:
    write("lower.py", ONE.replace("shout", "whisper"))
    write("both.py", "from lower import whisper\n" + ONE)
    assert [f.name for f in targets.load("both.py")] == ["shout"]


def test_a_file_is_loaded_once_also_when_another_imports_it() -> None:
    write("shared_one.py")
    write("user_of_it.py", "from shared_one import shout\n" + ONE.replace("shout", "mine"))
    targets.load("user_of_it.py")
    (found,) = targets.load("shared_one.py")
    assert found is sys.modules["user_of_it"].shout


def test_a_name_is_the_one_in_the_code_or_the_one_it_is_served_under() -> None:
    write("named.py", ONE.replace("@inference_function", "@inference_function(name='loud')"))
    assert targets.load("named.py:shout") == targets.load("named.py:loud") != []


def test_a_module_of_a_package_is_found_from_the_current_folder() -> None:
    write("pkg_a/__init__.py", "")
    write("pkg_a/tools.py", "LOUD = 3")
    write("pkg_a/app.py", "from .tools import LOUD\n" + ONE)
    assert [f.name for f in targets.load("pkg_a.app")] == ["shout"]
    assert [f.name for f in targets.load("pkg_a.app:shout")] == ["shout"]


def test_a_module_may_be_a_package_or_have_a_folder_before_it() -> None:
    write("deeper/pkg_b/__init__.py")
    assert [f.name for f in targets.load("deeper/pkg_b:shout")] == ["shout"]


@pytest.mark.parametrize("target", ["app_x.py:shout", "pkg_x.app:shout"])
def test_the_text_of_a_target_loads_in_another_process_from_another_folder(target: str, tmp_path: Path) -> None:
    write("app_x.py")
    write("pkg_x/__init__.py", "")
    write("pkg_x/app.py")
    text = Target.of(target).text
    assert Target.of(text) == Target.of(target)
    code = f"from faas import targets; (f,) = targets.load({text!r}); print(f('a'))"
    found = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    assert found.stdout == "A\n"


@pytest.mark.parametrize("target", ["", ":", "app.py:", ":shout"])
def test_a_text_without_a_place_or_a_name_is_refused(target: str) -> None:
    with pytest.raises(TargetError, match=r"names nothing; write app\.py"):
        targets.load(target)


def test_a_missing_file_names_the_nearest() -> None:
    write("server.py")
    with pytest.raises(TargetError, match=r"servr\.py: there is no such file \(did you mean 'server\.py'\?\)"):
        targets.load("servr.py")
    with pytest.raises(TargetError, match=r"zzz\.py: there is no such file; there is: server\.py"):
        targets.load("zzz.py")
    with pytest.raises(TargetError, match=r"nowhere/app\.py: there is no such file$"):
        targets.load("nowhere/app.py")


def test_a_folder_is_refused_with_the_files_in_it() -> None:
    write("folder/inner.py")
    with pytest.raises(TargetError, match=r"folder is a folder; name a Python file in it; there is: inner\.py"):
        targets.load("folder")


@pytest.mark.parametrize("target", ["data.txt", "not-a-module", "a..b"])
def test_what_is_neither_file_nor_module_is_refused(target: str) -> None:
    write("data.txt", "")
    with pytest.raises(TargetError, match="is neither a Python file nor a module"):
        targets.load(target)


def test_a_missing_module_is_told_from_a_module_that_it_misses() -> None:
    with pytest.raises(TargetError, match="there is no module 'absent_pkg' in"):
        targets.load("absent_pkg.app")
    write("misses.py", "import absent_library\n" + ONE)
    with pytest.raises(
        TargetError, match=r"cannot be imported: ModuleNotFoundError: .*'absent_library' \(misses\.py:1\)"
    ):
        targets.load("misses")


def test_a_file_without_a_function_says_how_to_make_one() -> None:
    write("plain.py", "def shout(text): return text\n")
    with pytest.raises(TargetError, match=r"plain\.py defines no function; decorate one: @inference_function"):
        targets.load("plain.py")
    with pytest.raises(TargetError, match=r"plain\.shout is no function of ours; decorate it"):
        targets.load("plain.py:shout")
    with pytest.raises(TargetError, match=r"plain has no function 'shot'; it defines none"):
        targets.load("plain.py:shot")


def test_a_file_that_only_imports_functions_says_where_they_are() -> None:
    write("origin.py")
    write("importer.py", "from origin import shout\n")
    with pytest.raises(TargetError, match="it imports shout: serve that as origin:shout"):
        targets.load("importer.py")
    with pytest.raises(TargetError, match=r"importer imports shout, it does not define it; serve it as origin:shout"):
        targets.load("importer.py:shout")


def test_an_unknown_name_names_the_nearest_and_all() -> None:
    write("known.py")
    with pytest.raises(TargetError, match=r"no function 'shuot' \(did you mean 'shout'\?\); it defines: shout"):
        targets.load("known.py:shuot")


def test_an_error_of_the_users_code_gives_its_last_line_and_where_it_is() -> None:
    write("helper_mod.py", "def compute():\n    return 1 / 0\n")
    write("raises.py", "import helper_mod\n\nhelper_mod.compute()\n")
    with pytest.raises(TargetError, match=r"ZeroDivisionError: division by zero \(helper_mod\.py:2\)") as caught:
        targets.load("raises.py")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_error_of_a_setting_is_placed_at_the_decorator() -> None:
    write("wrong_setting.py", ONE.replace("@inference_function", "@inference_function(nmae='x')"))
    wanted = r"imported: inference_function has .*'nmae' \(did you mean 'name'\?\).* \(wrong_setting\.py:4\)"
    with pytest.raises(TargetError, match=wanted):
        targets.load("wrong_setting.py")


def test_a_syntax_error_gives_its_line() -> None:
    write("broken_syntax.py", "\n\ndef :\n")
    with pytest.raises(TargetError, match=r"SyntaxError: .* \(broken_syntax\.py:3\)"):
        targets.load("broken_syntax.py")


def test_a_file_that_ends_the_program_is_an_error_not_an_end() -> None:
    write("ends.py", "import sys\nsys.exit(3)\n")
    with pytest.raises(TargetError, match=r"it ends the program when imported"):
        targets.load("ends.py")


def test_a_relative_import_in_a_file_says_to_name_the_module() -> None:
    write("pkg_c/__init__.py", "")
    write("pkg_c/inner_app.py", "from .tools import x\n")
    with pytest.raises(TargetError, match=r"name it as a module of its package: pkg_c\.inner_app"):
        targets.load("pkg_c/inner_app.py")


def test_the_file_of_a_package_itself_is_named_as_the_package() -> None:
    write("pkg_d/tools.py", "x = 1\n")
    write("pkg_d/__init__.py", "from .tools import x\n" + ONE)
    with pytest.raises(TargetError, match=r"name it as a module of its package: pkg_d$"):
        targets.load("pkg_d/__init__.py")
    assert [f.name for f in targets.load("pkg_d")] == ["shout"]


def test_a_file_deep_in_a_package_is_named_from_the_folder_of_the_package() -> None:
    for folder in ("below/pkg_e", "below/pkg_e/inner"):
        write(f"{folder}/__init__.py", "")
    write("below/pkg_e/inner/deep_app.py", "from .. import inner\n" + ONE)
    with pytest.raises(TargetError, match=r"of its package: below/pkg_e\.inner\.deep_app$"):
        targets.load("below/pkg_e/inner/deep_app.py")
    assert [f.name for f in targets.load("below/pkg_e.inner.deep_app")] == ["shout"]


def test_a_failed_load_leaves_nothing_behind_and_may_be_tried_again() -> None:
    path = write("mended.py", "raise ValueError('not yet')\n")
    before = list(sys.path)
    with pytest.raises(TargetError):
        targets.load("mended.py")
    assert sys.path == before
    assert "mended" not in sys.modules
    path.write_text(ONE + "# another size, so that no byte code of the same second is taken for it")
    assert [f.name for f in targets.load("mended.py")] == ["shout"]


@pytest.mark.parametrize("name", ["faas", "snapshot", "warmpool", "handlers", "deploy", "loadgen"])
@pytest.mark.parametrize("form", ["{}.py", "{}/__init__.py"])
def test_a_module_named_like_one_of_ours_is_refused_by_name(name: str, form: str) -> None:
    write(form.format(name), "")
    write("app_beside.py")
    with pytest.raises(TargetError, match=f"{name!r} is the name of a package of this framework; rename yours"):
        targets.load("app_beside.py")


def test_a_folder_of_data_named_like_one_of_ours_is_no_module() -> None:
    write("deploy/service.yaml", "")
    write("app_beside_data.py")
    assert [f.name for f in targets.load("app_beside_data.py")] == ["shout"]


@pytest.mark.parametrize("name", ["json", "statistics", "wave"])
def test_a_file_named_like_a_module_of_pythons_own_is_refused(name: str) -> None:
    write(f"{name}.py")
    with pytest.raises(TargetError, match=f"{name}.* rename the file"):
        targets.load(f"{name}.py")


def test_a_file_name_with_dots_is_refused() -> None:
    write("my.app.py")
    with pytest.raises(TargetError, match="has no dots; rename the file"):
        targets.load("my.app.py")


def test_two_functions_of_one_name_in_a_file_are_refused() -> None:
    write("twice.py", ONE + "quiet = shout.with_options(grad=True)\n")
    with pytest.raises(TargetError, match=r"twice\.py:shout and .*twice\.py:quiet are both named 'shout'"):
        targets.load("twice.py")


def test_two_files_of_one_name_cannot_be_loaded_together() -> None:
    write("left/same.py")
    write("right/same.py")
    targets.load("left/same.py")
    for ending in (".py", ""):
        with pytest.raises(
            TargetError, match=rf"right/same{ending}: a module named 'same' is loaded .*left/same.py; rename"
        ):
            targets.load(f"right/same{ending}")


def test_a_module_that_is_installed_is_found_from_any_folder() -> None:
    assert [f.name for f in targets.load("handlers.embed:Embed")] == ["embed"]
    with pytest.raises(TargetError, match=r"json defines no function; decorate one"):
        targets.load("json")


def test_the_line_of_an_error_is_the_users_last_not_a_librarys() -> None:
    write("inner_raise.py", "import json\n\ndef parse():\n    return json.loads('{')\n")
    sys.path.insert(0, str(Path.cwd()))
    with pytest.raises(ValueError, match="Expecting property name") as caught:
        importlib.import_module("inner_raise").parse()
    assert users_line(caught.value) == "inner_raise.py:4"
    assert users_line(ValueError("never raised")) == ""
