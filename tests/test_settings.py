"""What the environment says."""

import pytest

from faas import settings
from faas.errors import SettingError


def test_st_09_the_load_mode():
    assert settings.read({}).snapshot_load is None
    assert settings.read({"FAAS_SNAPSHOT_LOAD": " read "}).snapshot_load == "read"
    with pytest.raises(SettingError, match=r"FAAS_SNAPSHOT_LOAD='maps'.*auto, map, read, direct"):
        settings.read({"FAAS_SNAPSHOT_LOAD": "maps"})
