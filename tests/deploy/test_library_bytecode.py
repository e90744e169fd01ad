import importlib.util
import marshal
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import library_bytecode
from deploy.image.layer import File, write
from deploy.image.layer_cache import LayerCache

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
LIBRARY = f"/usr/lib/python{PYTHON}"


def base(path: Path, **files: bytes) -> Path:
    return write([File(name, content) for name, content in files.items()], path, created_by="base").path


@pytest.fixture
def tars(tmp_path: Path) -> list[Path]:
    lower = {
        f"{LIBRARY}/json/__init__.py": b"SAID = 'below'\n",
        f"{LIBRARY}/json/tool.py": b"x = 1\n",
        f"{LIBRARY}/broken.py": b"def\n",
        f"{LIBRARY}/site-packages/numpy.py": b"",
        f"{LIBRARY}/unittest/test/test_case.py": b"",
        "/usr/lib/python2.7/json.py": b"",
        f"{LIBRARY}/data.txt": b"",
    }
    upper = {f"{LIBRARY}/json/__init__.py": b"SAID = 'above'\n"}
    return [base(tmp_path / "1", **lower), base(tmp_path / "2", **upper)]


def test_the_layer_has_the_bytecode_of_what_is_on_top_and_is_never_compared(tars: list[Path], tmp_path: Path) -> None:
    (made,) = library_bytecode.layers("a", lambda: tars, python=PYTHON, cache=LayerCache(tmp_path / "cache"))
    with tarfile.open(made.path) as opened:
        held = {one.name: opened.extractfile(one).read() for one in opened if one.isreg()}  # type: ignore[union-attr]
    where = f"{LIBRARY.lstrip('/')}/json/__pycache__"
    assert sorted(held) == [f"{where}/{name}.{sys.implementation.cache_tag}.pyc" for name in ("__init__", "tool")]
    content = held[f"{where}/__init__.{sys.implementation.cache_tag}.pyc"]
    assert content[:4] == importlib.util.MAGIC_NUMBER
    assert int.from_bytes(content[4:8], "little") == 0b01  # by hash, unchecked
    code = marshal.loads(content[16:])
    assert code.co_filename == f"{LIBRARY}/json/__init__.py"
    names: dict[str, str] = {}
    exec(code, names)
    assert names["SAID"] == "above"


def test_a_base_is_read_once(tars: list[Path], tmp_path: Path) -> None:
    cache, read = LayerCache(tmp_path / "cache"), list[str]()

    def reading() -> Iterator[Path]:
        read.append("once")
        yield from tars

    first = library_bytecode.layers("a", reading, python=PYTHON, cache=cache)
    assert library_bytecode.layers("a", reading, python=PYTHON, cache=cache) == first
    assert read == ["once"]


def test_a_base_without_that_python_gets_no_layer(tars: list[Path], tmp_path: Path) -> None:
    (tmp_path / "zstd").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(600))
    cache = LayerCache(tmp_path / "cache")
    assert library_bytecode.layers("a", lambda: [*tars, tmp_path / "zstd"], python="3.9", cache=cache) == []
