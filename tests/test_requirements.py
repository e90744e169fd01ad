import json

import pytest

from faas.errors import SettingError
from faas.requirements import normalized, unmet, with_password, written_in


def test_what_is_missing_or_too_old_is_told():
    found = unmet(["msgspec", "msgspec>=99", "no-such-thing-here>1", "other; python_version < '3'", "Msgspec>=0.1"])
    assert len(found) == 2
    assert found[0].startswith("msgspec>=99 (")
    assert found[0].endswith(" is installed)")
    assert found[1] == "no-such-thing-here>1 (not installed)"


def test_what_is_no_requirement_is_refused():
    with pytest.raises(SettingError, match="pip would not take"):
        unmet(["not a requirement!"])


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return what installs a distribution of nothing but what is told of it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(name, version, *requires, url=None):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        lines = [f"Requires-Dist: {required}" for required in requires]
        (info / "METADATA").write_text(
            "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines])
        )
        if url is not None:
            (info / "direct_url.json").write_text(json.dumps({"url": url}))

    return install


def test_what_an_extra_brings_is_required_too(installed):
    installed("tiny_host", "1", 'tiny_guest>=2; extra == "more"', 'tiny_absent; extra == "most"')
    installed("tiny_guest", "1")
    assert unmet(["tiny-host"]) == []
    assert unmet(["tiny-host[more]"]) == ["tiny-host[more] (of its extra more, tiny_guest: 1 is installed)"]
    assert unmet(["tiny-host[most]"]) == ["tiny-host[most] (of its extra most, tiny_absent: not installed)"]


def test_what_is_required_from_one_place_must_come_from_there(installed):
    installed("tiny_placed", "1", url="https://there.example/tiny.whl")
    assert unmet(["tiny-placed @ https://there.example/tiny.whl"]) == []
    (other,) = unmet(["tiny-placed @ https://elsewhere.example/tiny.whl"])
    assert other.endswith("(1 is installed, from https://there.example/tiny.whl)")


def test_addresses_that_say_who_asks_are_known():
    assert with_password(
        [
            "numpy>=2",
            "a @ https://host/a-1-py3-none-any.whl",
            "b @ https://user:hunter2@host/b-1-py3-none-any.whl",
            "c @ git+https://token@host/c.git",
            "d @ git+ssh://git@host/d.git",
            "e @ https://${TOKEN}@host/e-1-py3-none-any.whl",
            "f @ https://user:${TOKEN}@host/f-1-py3-none-any.whl",
        ]
    ) == ["b", "c", "f"]


def test_requirements_that_mean_the_same_are_the_same():
    assert normalized("Scikit_Learn >=1.5") == normalized("scikit-learn>=1.5")


def test_lists_in_decorators_are_read_and_what_is_computed_is_not():
    source = """
import absent
FIRST = ["a>=1", "b"]
@inference_function(requirements=FIRST)
def one(): ...
@faas.inference_function(name="two", requirements=("b", "c"))
class Two: ...
@inference_function(requirements=read("file"))
async def three(): ...
@plain
def four(): ...
"""
    assert written_in(source) == ("a>=1", "b", "c")
    assert written_in("no python at all (") == ()
