import json
import os
import subprocess
import sys
import types

import msgspec

import faas.codec
from faas import modules


def test_what_is_installed_is_told_from_what_the_user_wrote(tmp_path):
    mine = types.ModuleType("mine")
    mine.__file__ = str(tmp_path / "mine.py")
    assert modules.is_users(mine)
    assert not any(modules.is_users(module) for module in (json, msgspec, faas.codec, sys))
    relative = types.ModuleType("_ops")
    relative.__file__ = "_ops.py"
    assert not modules.is_users(relative)


def test_packages_in_a_folder_of_the_search_path_are_installed_where_pip_put_them_there(tmp_path):
    for folder in ("packages", "code"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"of_{folder}.py").touch()
    (tmp_path / "packages" / "of_packages-1.dist-info").mkdir()
    asks = (
        "import of_code, of_packages; from faas import modules; print(*map(modules.is_users, (of_code, of_packages)))"
    )
    path = os.pathsep.join(["", str(tmp_path / "packages"), str(tmp_path / "code")])
    done = subprocess.run(
        [sys.executable, "-P", "-c", asks], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("True False\n", "")


def test_installed_modules_come_in_the_order_of_their_loading_and_can_be_imported():
    found = modules.installed()
    assert found.index("msgspec") < found.index("faas.codec")
    assert "__main__" not in found
    assert __name__ not in found
    assert "posixpath" in found
    assert "os.path" not in found  # its second name
    assert not any(name.startswith("__editable__") for name in found)  # of a checkout alone
    assert all(part.isidentifier() for name in found for part in name.split("."))
