"""How the bytes of a shard come into memory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from snapshot.manifest import Shard
from snapshot.mapping import map_private, opened


class Loader(Protocol):
    """Brings shards into memory. Thawing calls it once for each shard, in load order, and checks the head itself."""

    def shard(self, path: Path, shard: Shard) -> memoryview:
        """All of the shard's `num_bytes`, as writable bytes whose changes never reach the file at `path`.

        The head is there when this returns; of the data, what is not there yet must be when it is first read.
        Raises SizeMismatchError when there is no such file, or one of another size.
        """


@dataclass(frozen=True)
class MappedLoader:
    """Maps the files. willneed: ask the kernel to read them ahead (for a cold page cache)."""

    willneed: bool = False

    def shard(self, path: Path, shard: Shard) -> memoryview:
        """See `Loader.shard`."""
        with opened(path, shard.num_bytes) as descriptor:
            return map_private(descriptor, shard.num_bytes, path, willneed=self.willneed)
