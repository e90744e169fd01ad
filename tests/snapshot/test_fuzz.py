"""Mutated files: each is read whole, or refused by an error of this package, in memory that does not grow."""

import copy
import gc
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

import snapshot
from snapshot.errors import SnapshotError
from snapshot.manifest import MANIFEST_FILE
from snapshot.manifest_reading import read_manifest
from snapshot.tensor_file import TensorFile

MANY = pytest.mark.parametrize(
    "num_files", [2_000, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])]
)
MAX_GROWTH_BYTES = 24 << 20
NUMBERS = [0, 1, -1, 2, 7, 8, 63, 64, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), 1e308]
VALUES = [
    *NUMBERS,
    None,
    True,
    "",
    "a",
    "../a",
    "<f8",
    "|O",
    "O",
    "F32",
    "float32",
    "nn",
    "x" * 300,
    [],
    {},
    [2**40] * 9,
]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weight = torch.arange(60.0).view(6, 10)
    state = {
        "array": np.arange(12.0).reshape(3, 4).T,
        "tied": [weight, weight[2:], weight.t()],
        "parameter": torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16)),
        "empty": torch.empty(0, 3),
        "text": np.array(["a", "bc"]),
        "files": snapshot.KeptFiles({"config.json": b"{}"}),
    }
    folder = tmp_path_factory.mktemp("original") / "s"
    snapshot.freeze(state, folder, meta={"function": "embed", "list": [1, {"x": 2.5}]})
    return folder


@contextmanager
def flat_memory() -> Iterator[None]:
    """Fails when the resident memory ever stood higher within the block than before it, but for a little."""
    gc.collect()
    before = status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # begin a new high-water mark
    yield
    assert status_bytes("VmHWM") - before < MAX_GROWTH_BYTES


def status_bytes(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def scramble(chance: random.Random, content: bytes) -> bytes:
    """Change a few bytes, runs of bytes or numbers."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        begin = chance.randrange(len(changed) + 1)
        end = min(len(changed), begin + chance.choice((1, 1, 4, 40)))
        match chance.randrange(7):
            case 0 if begin < len(changed):
                changed[begin] = chance.randrange(256)
            case 1 if begin < len(changed):
                changed[begin] ^= 1 << chance.randrange(8)
            case 2:
                del changed[begin:end]
            case 3:
                changed[begin:begin] = chance.randbytes(chance.randrange(9))
            case 4:
                changed[begin:begin] = changed[begin:end]
            case 5:
                del changed[begin:]
            case _:
                numbers = list(re.finditer(rb"\d+", changed))
                if numbers:
                    changed[slice(*chance.choice(numbers).span())] = str(chance.choice(NUMBERS)).encode()
    return bytes(changed)


def replace_part(chance: random.Random, document: Any) -> None:
    """Put another value, or one from elsewhere, somewhere in a JSON document."""
    places: list[tuple[Any, Any]] = []
    stack = [document]
    while stack:
        part = stack.pop()
        keys = part if isinstance(part, dict) else range(len(part))
        places += [(part, key) for key in keys]
        stack += [part[key] for key in keys if isinstance(part[key], dict | list)]
    part, key = chance.choice(places)
    other, elsewhere = chance.choice(places)
    match chance.randrange(6):
        case 0:
            del part[key]
        case 1 if isinstance(part, list):
            part.append(part[key])
        case 2:
            part[key] = copy.deepcopy(other[elsewhere])
        case 3 if isinstance(part[key], int):
            part[key] += chance.choice((-64, -8, -1, 1, 8, 64))
        case _:
            part[key] = copy.deepcopy(chance.choice(VALUES))


def mutated_manifest(chance: random.Random, content: bytes) -> bytes:
    if chance.random() < 0.4:
        return scramble(chance, content)
    document = msgspec.json.decode(content)
    for _ in range(chance.choice((1, 1, 2))):
        replace_part(chance, document)
    return msgspec.json.encode(document) if chance.random() < 0.9 else msgspec.json.encode(document, order="sorted")


def mutated_tensor_file(chance: random.Random, content: bytes) -> bytes:
    head = 8 + int.from_bytes(content[:8], "little")
    match chance.randrange(4):
        case 0:
            return scramble(chance, content)
        case 1:
            return chance.choice((0, 1, head, 2**31, 2**62, 2**64 - 1)).to_bytes(8, "little") + content[8:]
        case 2:
            encoded = scramble(chance, content[8:head])
        case _:
            document = msgspec.json.decode(content[8:head])
            replace_part(chance, document)
            encoded = msgspec.json.encode(document)
    return len(encoded).to_bytes(8, "little") + encoded + content[head:]


def open_all(folder: Path) -> None:
    """Everything that a program does with a snapshot that it does not trust."""
    read_manifest(folder)
    for value in snapshot.open_weights(folder, load="map").values():
        if 0 not in value.shape:
            for index in (0, -1):
                element = value[(index,) * value.ndim]
                assert (element.clone() if isinstance(element, torch.Tensor) else element.copy()).ndim == 0


def open_tensors(path: Path) -> None:
    file = TensorFile(path)
    for name in file.names():
        try:
            assert file.tensor(name).numel() >= 0
        except snapshot.UnsupportedDtypeError:
            assert len(file.memory(name)) >= 0


def written(path: Path, contents: Iterable[bytes]) -> Iterator[Path]:
    """The file, once with each of the contents. Written in place: file systems are slow to empty a file."""
    with open(path, "wb", buffering=0) as file:
        for content in contents:
            os.pwrite(file.fileno(), content, 0)
            file.truncate(len(content))
            yield path


def outcomes(paths: Iterator[Path], read: Callable[[Path], None]) -> dict[str, int]:
    """How often each error was raised, "" for none. Any other error than this package's ends the test."""
    counts: dict[str, int] = {}
    for path in paths:
        try:
            read(path)
            name = ""
        except SnapshotError as error:
            name = type(error).__name__
        counts[name] = counts.get(name, 0) + 1
    return counts


@MANY
def test_any_mutated_manifest_is_read_whole_or_refused(original: Path, tmp_path: Path, num_files: int) -> None:
    chance = random.Random(20261129)
    content = (original / MANIFEST_FILE).read_bytes()
    for file in original.rglob("*"):
        if file.is_file() and file.name != MANIFEST_FILE:
            target = tmp_path / file.relative_to(original)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(file)

    contents = (mutated_manifest(chance, content) for _ in range(num_files))
    open_all(original)
    with flat_memory():
        counts = outcomes(written(tmp_path / MANIFEST_FILE, contents), lambda path: open_all(path.parent))
    assert {"", "BadManifestError", "FormatVersionError", "BadViewError", "SizeMismatchError"} <= counts.keys()


@MANY
def test_any_mutated_tensor_file_is_read_whole_or_refused(original: Path, tmp_path: Path, num_files: int) -> None:
    chance = random.Random(20261130)
    (shard,) = original.glob("*.safetensors")
    content = shard.read_bytes()

    contents = (mutated_tensor_file(chance, content) for _ in range(num_files))
    open_tensors(shard)
    with flat_memory():
        counts = outcomes(written(tmp_path / "f", contents), open_tensors)
    assert {"", "BadHeaderError", "SizeMismatchError"} <= counts.keys()
