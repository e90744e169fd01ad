"""How the bytes of shards come into memory: mapped, or read into memory of the process's own.

auto     what `decide` finds best
map      mapped: nothing is copied, all processes share the page cache's one copy; read ahead where that is cold
read     few large sequential reads into anonymous memory, for file systems on which each page fault is a request
direct   the same past the page cache, several reads in flight
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from snapshot.errors import NotEnoughMemoryError
from snapshot.filesystem import Kind, cached_bytes, kind_of
from snapshot.free_memory import available_bytes
from snapshot.manifest import Shard
from snapshot.mapping import map_private, opened
from snapshot.read_ahead import ReadAhead
from snapshot.reading import Read, WholeFile

LoadMode = Literal["auto", "map", "read", "direct"]

_FEW_BYTES = 4 << 20  # less than this is faulted in as fast as it is read ahead
_SMALL_SHARE = 1 / 32  # and what is nearly all there is not gone through for the rest


class Loader(Protocol):
    """Brings shards into memory. Thawing calls it once for each shard, in load order, and checks the head itself."""

    def shard(self, path: Path, shard: Shard) -> memoryview:
        """All of the shard's `num_bytes`, as writable bytes whose changes never reach the file at `path`.

        The head is there when this returns; of the data, what is not there yet must be when it is first read.
        Raises SizeMismatchError when there is no such file, or one of another size.
        """


class Facts(msgspec.Struct, frozen=True):
    """What `decide` goes by: the file system, the files' size in sum and how much of it the page cache holds, and what
    tells the memory that this process may still take (the page cache counts as free): asked only where that matters."""

    kind: Kind
    num_bytes: int
    cached_bytes: int
    available: Callable[[], int] = available_bytes


class Plan(msgspec.Struct, frozen=True):
    """How to load. `read_ahead` is for mapped files alone."""

    mode: Literal["map", "read", "direct"]
    read_ahead: bool = False


def decide(asked: LoadMode, facts: Facts) -> Plan:
    """How to load files that are as `facts` says.

    Left to choose, it maps, unless they lie on a remote file system: there it reads, and past the page cache where that
    is cold and a copy in it would not fit beside the process's own. A mapping is never refused: its pages can be
    dropped and read again, which is slow where the files are larger than memory, and reading ahead would only be in
    its own way.
    Raises NotEnoughMemoryError when memory of the process's own is needed, and there is less than that.
    """
    num_cold_bytes = facts.num_bytes - facts.cached_bytes
    mode = asked
    if mode == "auto":
        if facts.kind != "remote":
            mode = "map"
        else:
            mode = "read" if facts.num_bytes + num_cold_bytes <= facts.available() else "direct"
    if mode == "map":
        is_worth_it = facts.kind != "memory" and num_cold_bytes >= max(_FEW_BYTES, _SMALL_SHARE * facts.num_bytes)
        return Plan("map", read_ahead=is_worth_it and facts.num_bytes <= facts.available())
    if facts.num_bytes > (available := facts.available()):
        raise NotEnoughMemoryError(facts.num_bytes, available, mode)
    return Plan(mode)


class FileLoader(msgspec.Struct, frozen=True):
    """Loads whole files as a plan says; what is mapped is read ahead from when `read_ahead` is told to begin.

    `read` stands for `os.preadv` where a test wants to see it.
    """

    plan: Plan
    read_ahead: ReadAhead
    read: Read = os.preadv

    def shard(self, path: Path, shard: Shard) -> memoryview:
        """See `Loader.shard`."""
        return self.file(path, shard.num_bytes)

    def file(self, path: Path, num_bytes: int) -> memoryview:
        """All of a file. Raises SizeMismatchError when it has not `num_bytes`."""
        with opened(path, num_bytes) as descriptor:
            if self.plan.mode != "map":
                whole = WholeFile(descriptor, num_bytes, path, self.read)
                return whole.sequentially() if self.plan.mode == "read" else whole.directly()
            memory = map_private(descriptor, num_bytes, path)
        if self.plan.read_ahead:
            self.read_ahead.add(path, num_bytes)
        return memory


def loader_for(paths: Sequence[Path], asked: LoadMode, *, background: bool = True) -> FileLoader:
    """The loader for files that are used together and lie in one place.

    background: whether a thread may still be reading ahead when a file has been loaded
    Raises SizeMismatchError when one of them cannot be opened, NotEnoughMemoryError as `decide` does.
    """
    return FileLoader(decide(asked, facts_of(paths)), ReadAhead(background=background))


def facts_of(paths: Sequence[Path]) -> Facts:
    """What there is to know of files that lie in one place. Raises SizeMismatchError when one cannot be opened."""
    num_bytes = num_cached_bytes = 0
    for path in paths:
        with opened(path) as descriptor:
            size = os.fstat(descriptor).st_size
            num_bytes += size
            num_cached_bytes += cached_bytes(descriptor, size)
    kind = kind_of(paths[0]) if paths else "local"
    return Facts(kind, num_bytes, num_cached_bytes)
