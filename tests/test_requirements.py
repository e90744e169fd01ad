import pytest

from faas.errors import SettingError
from faas.requirements import unmet


def test_what_is_missing_or_too_old_is_told():
    found = unmet(["msgspec", "msgspec>=99", "no-such-thing-here>1", "other; python_version < '3'", "Msgspec>=0.1"])
    assert len(found) == 2
    assert found[0].startswith("msgspec>=99 (")
    assert found[0].endswith(" is installed)")
    assert found[1] == "no-such-thing-here>1 (not installed)"


def test_what_is_no_requirement_is_refused():
    with pytest.raises(SettingError, match="pip would not take"):
        unmet(["not a requirement!"])
