import importlib.util
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy import wheels
from deploy.image.errors import WheelsError, WrongPlatform
from deploy.image.layer import Layer
from deploy.image.layer_cache import LayerCache
from deploy.image.manifest import Platform
from deploy.wheels import Lock, Pin, Target
from tests.wheels import only_from, write_wheel

AT = "/opt/libraries"


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip finds, and nothing else."""
    folder = tmp_path / "house"
    only_from(monkeypatch, folder)
    write_wheel(folder, "one", "1.0", requires=["two>=1"])
    write_wheel(folder, "two", "1.1", code="def answer():\n    return 42\n")
    write_wheel(folder, "two", "1.2", code="def answer():\n    return 42\n")
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def made(lock: Lock, cache: Path, **options: object) -> Layer:
    return wheels.layer(lock, Target(), at=AT, cache=LayerCache(cache), **options)  # type: ignore[arg-type]


def no_pip(*arguments: object) -> None:
    raise AssertionError("pip was run")


def test_requirements_are_locked_to_versions_with_hashes(house: Path, cache: Path) -> None:
    lock = wheels.resolve(["one"], Target(), cache=cache)
    assert lock.versions == {"one": "1.0", "two": "1.2"}
    assert [line.split(" --hash=sha256:")[0] for line in lock.text.splitlines()] == ["one==1.0", "two==1.2"]
    assert all(len(pin.sha256) == 64 for pin in lock.pins)


def test_constraints_hold(house: Path, cache: Path) -> None:
    assert wheels.resolve(["one"], Target(), cache=cache, constraints=["two<1.2"]).versions["two"] == "1.1"


@pytest.mark.slow
def test_a_lock_stays_until_it_is_asked_for_anew(house: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = wheels.resolve(["one"], Target(), cache=cache)
    write_wheel(house, "two", "1.3")
    with monkeypatch.context() as patched:
        patched.setattr(wheels, "_pip", no_pip)
        assert wheels.resolve(["one"], Target(), cache=cache) == first
    assert wheels.resolve(["one"], Target(), cache=cache, refresh=True).versions["two"] == "1.3"
    assert wheels.resolve(["one"], Target(), cache=cache).versions["two"] == "1.3"


def test_nothing_needed_is_an_empty_lock_without_pip(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "_pip", no_pip)
    assert wheels.resolve([], Target(), cache=cache) == Lock(())


def test_what_is_provided_in_that_version_is_left_out() -> None:
    lock = Lock((Pin("a", "1", "0"), Pin("b", "2", "0"), Pin("c", "3", "0")))
    assert lock.without({"a": "1", "b": "1"}).versions == {"b": "2", "c": "3"}


def unpacked(layer: Layer, tmp_path: Path) -> Path:
    with tarfile.open(layer.path) as tar:
        tar.extractall(tmp_path / "unpacked", filter="fully_trusted")
    return tmp_path / "unpacked" / AT.lstrip("/")


def test_a_layer_holds_the_packages_with_bytecode_that_is_never_checked(
    house: Path, cache: Path, tmp_path: Path
) -> None:
    site = unpacked(made(wheels.resolve(["one"], Target(), cache=cache), cache), tmp_path)
    assert sorted(path.name for path in site.iterdir()) == ["one", "one-1.0.dist-info", "two", "two-1.2.dist-info"]
    bytecode = (site / "two" / "__pycache__" / f"__init__.{sys.implementation.cache_tag}.pyc").read_bytes()
    assert bytecode[:4] == importlib.util.MAGIC_NUMBER
    assert int.from_bytes(bytecode[4:8], "little") == 0b01  # PEP 552: by hash, unchecked
    assert f"{AT}/two/__init__.py".encode() in bytecode  # where a traceback says that it is
    assert b"faas-wheels-" not in bytecode


@pytest.mark.slow
def test_a_layer_made_again_elsewhere_has_the_same_bytes(house: Path, cache: Path, tmp_path: Path) -> None:
    lock = wheels.resolve(["one"], Target(), cache=cache)
    assert made(lock, cache).digest == made(lock, tmp_path / "other").digest


@pytest.mark.slow
def test_a_layer_that_was_made_is_not_made_again(house: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = wheels.resolve(["one"], Target(), cache=cache)
    first = made(lock, cache)
    monkeypatch.setattr(wheels, "_pip", no_pip)
    assert made(lock, cache) == first


@pytest.mark.slow
def test_scripts_name_no_interpreter_of_this_machine(house: Path, cache: Path, tmp_path: Path) -> None:
    write_wheel(house, "tool", "1.0", code="def main():\n    print('ran')\n")
    wheel = house / "tool-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "a") as opened:
        opened.writestr("tool-1.0.dist-info/entry_points.txt", "[console_scripts]\ntool = tool:main\n")
    site = unpacked(made(wheels.resolve(["tool"], Target(), cache=cache), cache), tmp_path)
    script = (site / "bin" / "tool").read_text()
    assert script.startswith("#!/usr/bin/env python3\n")
    assert "from tool import main" in script
    assert sys.prefix not in script
    assert "bin/tool" not in (site / "tool-1.0.dist-info" / "RECORD").read_text()


def test_the_three_lines_that_pip_writes_for_long_paths_go(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").write_text("#!/bin/sh\n'''exec' /long/bin/python \"$0\" \"$@\"\n' '''\nimport sys\n")
    (tmp_path / "bin" / "program").write_bytes(b"\x7fELF python")
    wheels._strip(tmp_path)
    assert (tmp_path / "bin" / "tool").read_text() == "#!/usr/bin/env python3\nimport sys\n"
    assert (tmp_path / "bin" / "program").read_bytes() == b"\x7fELF python"


@pytest.mark.slow
def test_a_wheel_that_is_built_anew_under_its_version_is_another(house: Path, cache: Path, tmp_path: Path) -> None:
    """As this framework's own is, while it is worked on."""
    own = tmp_path / "own"
    write_wheel(own, "mine", "1.0", code="A = 1\n")
    first = wheels.resolve(["mine==1.0"], Target(), cache=cache, find_links=[own])
    write_wheel(own, "mine", "1.0", code="A = 2\n")
    second = wheels.resolve(["mine==1.0"], Target(), cache=cache, find_links=[own])
    assert first.pins[0].sha256 != second.pins[0].sha256
    assert made(second, cache, find_links=[own]).digest


@pytest.mark.slow
def test_a_direct_wheel_is_locked_by_its_hash_and_its_place_is_not_told(
    house: Path, cache: Path, tmp_path: Path
) -> None:
    url = (house / "two-1.1-py3-none-any.whl").as_uri()
    lock = wheels.resolve([f"two @ {url}"], Target(), cache=cache)
    assert lock.text.startswith(f"two @ {url} --hash=sha256:")
    site = unpacked(made(lock, cache), tmp_path)
    assert not list(site.rglob("direct_url.json"))


@pytest.mark.slow
def test_a_package_that_changed_since_it_was_locked_is_refused(house: Path, cache: Path) -> None:
    lock = wheels.resolve(["two"], Target(), cache=cache)
    write_wheel(house, "two", "1.2", code="evil = True\n")
    with pytest.raises(WheelsError, match=r"(?i)hash"):
        made(lock, cache)


@pytest.mark.parametrize("requirement", ["nowhere", "two>=9"])
def test_what_has_no_wheel_is_named(house: Path, cache: Path, requirement: str) -> None:
    with pytest.raises(WheelsError, match=f"pip finds no wheel of {requirement}"):
        wheels.resolve([requirement], Target(), cache=cache)


@pytest.mark.slow
def test_a_wheel_for_another_machine_is_not_taken(house: Path, cache: Path) -> None:
    (house / "two-1.2-py3-none-any.whl").rename(house / "two-1.2-cp311-cp311-manylinux_2_39_x86_64.whl")
    (house / "two-1.1-py3-none-any.whl").rename(house / "two-1.1-cp311-cp311-manylinux2014_x86_64.whl")
    assert wheels.resolve(["two"], Target(), cache=cache).versions == {"two": "1.1"}


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (Target(python="3.9"), "the image has Python 3.9, this is Python"),
        (Target(platform=Platform("linux", "s390x")), "no wheels for linux/s390x"),
        (Target(platform=Platform("windows", "amd64")), "no wheels for windows/amd64"),
    ],
)
def test_what_pip_cannot_choose_for_is_said_before_it_is_run(cache: Path, target: Target, says: str) -> None:
    with pytest.raises(WrongPlatform, match=says):
        wheels.resolve(["one"], target, cache=cache)


def test_arm_gets_wheels_for_arm() -> None:
    options = Target(platform=Platform("linux", "arm64")).options()
    assert "manylinux2014_aarch64" in options
    assert not any("x86_64" in option for option in options)


def test_an_index_that_cannot_be_reached_is_said() -> None:
    output = "after connection broken by 'NewConnectionError(x)'\nERROR: No matching distribution found for a"
    assert wheels._explained(output, 1)[0] == "the package index cannot be reached (NewConnectionError)"
    output = (
        "ERROR: Cannot install a==1 because these package versions have conflicting dependencies.\n\n"
        "The conflict is caused by:\n    The user requested a==1\n    b 2.0 depends on a>=2\n"
        "    The user requested (constraint) a<3\n\nTo fix this you could try to:\n1. loosen"
    )
    assert wheels._explained(output, 1)[0] == (
        "requirements contradict each other: asked for is a==1, but b 2.0 depends on a>=2, but the constraints say a<3"
    )
    assert wheels._explained("/x/python: No module named pip", 1)[1] == "python -m ensurepip"
    assert wheels._explained("ERROR: first\nERROR: second", 2)[0] == "pip ended with status 2: first second"
