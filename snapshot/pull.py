"""A snapshot on its way from a remote store into a folder store, used while it comes."""

import contextlib
import errno
import itertools
import os
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from snapshot.arrivals import Arrivals, Progress
from snapshot.errors import NoSpaceError, NotWritableError, SnapshotError
from snapshot.fetching import Fetching, Partial, Source
from snapshot.local_store import LocalStore
from snapshot.manifest import FileRecord, Manifest, Shard, StoredTensor
from snapshot.mapping import map_private, opened
from snapshot.resuming import chunks_there
from snapshot.spans import Span, cut, runs
from snapshot.store import StoredSnapshot

if TYPE_CHECKING:
    from snapshot.thaw import Thawed

NUM_STREAMS = 6
_MAX_OPEN_FILES = 100
"""How many files are written at a time, each with two descriptors, of which processes often may have 1024."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Pulling:
    """A pull under way, in threads of its own. As a context manager it stops at the end of a block that raises.

    Bytes count as arrived when their digest is right. Made by `S3Store.pull`.
    """

    def __init__(
        self,
        source: Source,
        stored: StoredSnapshot,
        manifest: Manifest,
        into: LocalStore,
        *,
        progress: Progress | None = None,
        num_streams: int = NUM_STREAMS,
    ) -> None:
        self.stored = stored
        self.manifest = manifest
        self._source = source
        self._into = into
        self._num_streams = num_streams
        # Files with equal content are one file here.
        self._files: dict[str, FileRecord | Shard] = {}
        for record in manifest.all_files:
            self._files.setdefault(record.digest, record)
        self._arrivals = Arrivals({record.digest: record.num_bytes for record in self._files.values()}, progress)
        self._tensors = dict(_tensors_by_name(manifest))
        self._folder = into.folder(stored)
        self._begun = threading.Event()
        self._in_place = threading.Lock()  # held by whoever reads the folder, or moves it
        self._fetching: Fetching | None = None
        self._thread = threading.Thread(target=self._run, name="pull", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Pulling":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.stop()

    @property
    def total_bytes(self) -> int:
        """What there is to pull, the manifest aside, had nothing of it been here."""
        return self._arrivals.total_bytes

    @property
    def arrived_bytes(self) -> int:
        """What of it is here."""
        return self._arrivals.arrived_bytes

    def wait_for(self, name: str) -> None:
        """Return when the tensor of that name, stored or of the object graph, has arrived.

        Raises KeyError when there is none, and the error that ended the pull.
        """
        shard, tensor = self._tensors[name]
        self._arrivals.wait(shard.digest, tensor.offset, tensor.offset + tensor.num_bytes)

    def memory(self, name: str) -> memoryview:
        """The bytes of a tensor, waited for, mapped as `thaw` maps them. Raises as `wait_for` does."""
        self.wait_for(name)
        shard, tensor = self._tensors[name]
        return self.shard(self._folder / shard.file, shard)[tensor.offset : tensor.offset + tensor.num_bytes]

    def wait(self) -> None:
        """Return when every byte has arrived. Raises the error that ended the pull."""
        self._arrivals.wait_all()

    def finish(self) -> StoredSnapshot:
        """Return when the snapshot is in the folder store too, durably, as the latest. Raises as `wait` does."""
        self._thread.join()
        self._arrivals.wait_all()
        return self.stored

    def stop(self) -> None:
        """End the pull; what has arrived is kept for the next one. One that waits for another's ends after that one."""
        self._arrivals.fail(SnapshotError(f"the pull of {self.stored.name} was stopped"))
        if self._fetching is not None:
            self._fetching.stop()
            self._thread.join()

    def thaw(self, **options: Any) -> "Thawed":
        """Rebuild the object graph while its bytes still arrive. `options` are those of `snapshot.thaw`.

        What comes back may hold tensors that have not arrived: read none before `wait_for` has returned for it, and
        serve nothing before `wait` has. Code that runs while the graph is rebuilt and could look into a tensor is
        given it only when it is here. Kept files and devices are read at once, so that where there are any, the whole
        snapshot is waited for first. Raises what `snapshot.thaw` does, and the error that ended the pull.
        """
        from snapshot.thaw import goes_to_devices, thaw
        from snapshot.watching import Watching

        if self.manifest.files or goes_to_devices(self.manifest, options.get("device")):
            folder = self._into.folder(self.finish())
            return thaw(folder, expect_digest=self.manifest.digest, **options)
        self._arrivals.wait_file(self.manifest.skeleton.digest)
        self._begun.wait()
        watching = Watching(self._wait_for_number)
        options.pop("load", None)  # the bytes go through the page cache: mapping is what there is
        with self._in_place:
            self._arrivals.check()  # the folder of one that failed is gone
            return thaw(self._folder, expect_digest=self.manifest.digest, loader=self, watch=watching, **options)

    def shard(self, path: Path, shard: Shard) -> memoryview:
        """See `Loader.shard`: mapped where it is being written, or where it has come to lie by now."""
        self._arrivals.wait(shard.digest, 0, shard.head_bytes)
        with contextlib.ExitStack() as stack:
            here = self._into.blobs.partial / shard.digest
            if here.exists():  # it may go any moment, and is then under its path
                with contextlib.suppress(SnapshotError):
                    descriptor = stack.enter_context(opened(here, shard.num_bytes))
                    return map_private(descriptor, shard.num_bytes, here)
            here = self._folder / self._files[shard.digest].file
            return map_private(stack.enter_context(opened(here, shard.num_bytes)), shard.num_bytes, path)

    def _wait_for_number(self, number: int) -> None:
        for shard in self.manifest.shards:
            if number < len(shard.tensors):
                tensor = shard.tensors[number]
                return self._arrivals.wait(shard.digest, tensor.offset, tensor.offset + tensor.num_bytes)
            number -= len(shard.tensors)
        raise IndexError(number)

    def _run(self) -> None:
        try:
            with self._received() as staging:
                if staging is not None:
                    self._fill(staging)
            for digest in self._files:  # those of a snapshot that was there
                self._arrivals.mark(digest)
        except OSError as error:
            self._arrivals.fail(self._no_space(error) if error.errno in _FULL else self._not_writable(error))
        except BaseException as error:
            self._arrivals.fail(error)
        finally:
            self._begun.set()

    @contextlib.contextmanager
    def _received(self) -> Iterator[Path | None]:
        """The folder to fill. It goes to its place, or away, only while nobody reads it."""
        with contextlib.ExitStack() as reading:
            with self._into.receiving(self.stored.name, self.manifest) as staging:
                try:
                    self._folder = staging or self._folder
                    yield staging
                except BaseException as error:
                    self._arrivals.fail(error)  # first: who reads the folder may wait for more to come
                    raise
                finally:
                    reading.enter_context(self._in_place)
            self._folder = self._into.folder(self.stored)

    def _fill(self, staging: Path) -> None:
        digests = list(self._files)  # the skeleton's and the shards' first
        for begin in range(0, len(digests), _MAX_OPEN_FILES):
            self._fill_together(staging, digests[begin : begin + _MAX_OPEN_FILES])
        for record in self.manifest.all_files:
            if record is not self._files[record.digest]:
                self._into.blobs.hold(record.digest, record.num_bytes, staging / record.file)

    def _fill_together(self, staging: Path, digests: Sequence[str]) -> None:
        skeleton = self.manifest.skeleton.digest
        with contextlib.ExitStack() as all_files:
            writing = {}
            partials: dict[str, Partial] = {}
            for digest in sorted(digests):  # as `Blobs.writing` wants it
                writing[digest] = all_files.enter_context(contextlib.ExitStack())
                partial = self._opened(digest, staging, writing[digest])
                if partial is None:
                    self._arrivals.mark(digest)
                else:
                    partials[digest] = partial
                    self._arrivals.mark(digest, chunks_there(partial))
            with self._fetched(partials):
                if skeleton in digests:
                    self._arrivals.wait_file(skeleton)
                    writing[skeleton].close()
                    self._begun.set()
            # Made durable when all is here, not before: who waits for the bytes need not wait for the disk.

    def _opened(self, digest: str, staging: Path, stack: contextlib.ExitStack) -> Partial | None:
        record = self._files[digest]
        target = staging / record.file
        path = stack.enter_context(self._into.blobs.writing(digest, record.num_bytes, target))
        if path is None:
            return None
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, descriptor)
        head = (record.head_bytes, record.head_digest) if isinstance(record, Shard) else None
        return Partial(path, descriptor, record.num_bytes, record.chunks, head)

    @contextlib.contextmanager
    def _fetched(self, partials: dict[str, Partial]) -> Iterator[None]:
        """Fetch what is missing while the block runs, and to its end."""
        self._fetching = Fetching(self._source, partials, self._arrivals)
        self._arrivals.check()  # it may have been stopped meanwhile
        spans = self._to_fetch(partials)
        self._fetching.start(spans, min(self._num_streams, len(spans)))
        try:
            yield
        except BaseException:
            self._fetching.stop()
            raise
        finally:
            self._fetching.join()
        for digest in partials:
            self._arrivals.wait_file(digest)  # it is here, or it failed
        self._arrivals.check()

    def _to_fetch(self, partials: Mapping[str, Partial]) -> list[Span]:
        """What is missing of these: the skeleton and the heads of all shards, then everything in load order.

        The graph cannot be rebuilt without any of the former. A later shard's head alone comes ahead, without the rest
        of its chunk, which would keep the first tensor waiting.
        """
        missing = {
            digest: runs(digest, record.num_bytes, self._arrivals.missing(digest))
            for digest, record in self._files.items()
            if digest in partials
        }
        first = missing.pop(self.manifest.skeleton.digest, [])
        for shard in self.manifest.shards[1:]:
            spans = missing.get(shard.digest)
            if spans and spans[0].begin == 0:
                first.append(Span(shard.digest, 0, shard.head_bytes))
        return first + cut(itertools.chain.from_iterable(missing.values()), self._num_streams)

    def _not_writable(self, error: OSError) -> NotWritableError:
        return NotWritableError(
            f"{self._into.root}: {self.stored.name} cannot be written there ({error.strerror}: {error.filename}); "
            f"make it writable, or choose another folder"
        )

    def _no_space(self, error: OSError) -> NoSpaceError:
        free = shutil.disk_usage(self._into.root).free
        return NoSpaceError(
            f"{self._into.root}: no room for the {self.total_bytes} bytes of {self.stored.name} "
            f"({free} are free; {error.strerror}); make room with `faas snapshot gc`, or choose another folder"
        )


def _tensors_by_name(manifest: Manifest) -> Iterator[tuple[str, tuple[Shard, StoredTensor]]]:
    """By the names in the object graph, and by those at rest, which are unique."""
    stored = [(shard, tensor) for shard in manifest.shards for tensor in shard.tensors]
    for view in manifest.views:
        yield view.name, stored[view.tensor]
    for shard, tensor in stored:
        yield tensor.name, (shard, tensor)
