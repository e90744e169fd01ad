import json
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


def test_installed_modules_come_in_the_order_of_their_loading_and_can_be_imported():
    found = modules.installed()
    assert found.index("msgspec") < found.index("faas.codec")
    assert "__main__" not in found
    assert __name__ not in found
    assert "posixpath" in found
    assert "os.path" not in found  # its second name
    assert not any(name.startswith("__editable__") for name in found)  # of a checkout alone
    assert all(part.isidentifier() for name in found for part in name.split("."))
