"""From a snapshot back to the object graph, its tensors in place in the mapped shards."""

import contextlib
import io
import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import msgspec
from blake3 import blake3

from snapshot import arrays, libraries, reducers, tensors
from snapshot.collection import paused_collection
from snapshot.digests import digest_bytes
from snapshot.errors import (
    BadHeaderError,
    DigestMismatchError,
    LibraryMismatchError,
    PythonMismatchError,
    SnapshotError,
    ThawError,
)
from snapshot.format import FILLER_PREFIX, Header, parse_head
from snapshot.loader import Loader, LoadMode, loader_for
from snapshot.manifest import MANIFEST_FILE, FileRecord, Manifest, Shard, View
from snapshot.manifest_reading import read_manifest
from snapshot.mapping import opened

if TYPE_CHECKING:
    import torch

    from snapshot.device.device import Device
    from snapshot.device.loading import DeviceTensors
    from snapshot.watching import Watching


class Thawed(msgspec.Struct, frozen=True, eq=False):
    """What came back.

    mapped_bytes: address space that the shards take; memory only where it is touched
    timings: milliseconds of each phase: check (manifest, versions), map (shards and their headers), skeleton (reading
        it), rebuild (unpickling it, with the imports that takes), device (what tensors of a device took longer)
    """

    state: Any
    manifest: Manifest
    mapped_bytes: int
    timings: dict[str, float]


@paused_collection()
def thaw(
    folder: Path,
    *,
    expect_digest: str | None = None,
    load: LoadMode = "auto",
    background: bool = True,
    num_threads: int | None = None,
    loader: Loader | None = None,
    watch: "Watching | None" = None,
    device: "str | Device | None" = None,
) -> Thawed:
    """Rebuild the object graph that was frozen into `folder`.

    The skeleton is code: it is unpickled only when its digest is the manifest's, the manifest's digest is
    `expect_digest` (where given), and Python and the libraries are those it was made with. Sizes and headers of the
    shards are checked, not their digests: `verify` does that.
    The tensors are copy-on-write: writing to them changes this process alone, never the file.

    load: how the shards come into memory; see `snapshot.loader`
    background: whether a thread may still be reading ahead when this returns; not in a process that is to fork
    num_threads: threads for rebuilt runtimes that were left to choose for themselves (onnxruntime sessions)
    loader: what brings the shards into memory instead
    watch: follows the rebuilding, where a loader gives memory whose bytes are yet to come
    device: where all torch tensors go ("cpu", "cuda", "cuda:1"), if not to the devices that they were frozen on
    Raises SnapshotNotFoundError, DamagedError, IncompatibleError, NotEnoughMemoryError, DeviceError, ThawError.
    """
    folder = folder.resolve()
    clock = _Phases()
    with clock.phase("check"):
        manifest = use(folder, expect_digest)
        _check_environment(manifest)
    with _devices(folder, manifest, device, load) as devices:
        with clock.phase("map"):
            left = [folder / shard.file for shard in manifest.shards if devices is None or shard not in devices.shards]
            files = loader_for(left, load, background=background) if loader is None else None
            bringing = files or cast("Loader", loader)
            memory = load_tensors(folder, manifest, devices.beside(bringing) if devices else bringing)
            for record in manifest.files:
                with opened(folder / record.file, record.num_bytes):
                    pass
        with clock.phase("skeleton"):
            skeleton = _read_skeleton(folder, manifest.skeleton)
        with clock.phase("rebuild"), reducers.threads(num_threads):
            state = _unpickler(watch)(skeleton, folder, manifest, (memory, devices)).load_graph()
        if files is not None:
            files.read_ahead.begin()
        if devices is not None:
            with clock.phase("device"):
                devices.wait()
    return Thawed(state, manifest, sum(shard.num_bytes for shard in manifest.shards), clock.timings)


class _Phases:
    def __init__(self) -> None:
        self.timings: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begin = perf_counter()
        yield
        self.timings[name] = (perf_counter() - begin) * 1e3


def use(folder: Path, expect_digest: str | None) -> Manifest:
    """The manifest of a snapshot that is used from now on, once it is the one that was asked for, if one was."""
    with contextlib.suppress(OSError):  # another user's, or where nothing can be written
        os.utime(folder)  # its last use, which decides what a cache keeps
    manifest = read_manifest(folder)
    if expect_digest is not None and manifest.digest != expect_digest:
        raise DigestMismatchError(folder / MANIFEST_FILE, f"is {manifest.digest}, asked for was {expect_digest}")
    return manifest


def _check_environment(manifest: Manifest) -> None:
    major, minor, *_ = manifest.python.split(".")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if f"{major}.{minor}" != here:
        raise PythonMismatchError(
            f"the snapshot was made by Python {manifest.python} and this is Python {sys.version.split()[0]}; "
            f"make it again here, or run it with Python {major}.{minor}"
        )
    if differing := libraries.mismatches(manifest.libraries):
        raise LibraryMismatchError(differing)


def goes_to_devices(manifest: Manifest, device: "str | Device | None") -> bool:
    """Whether a thaw to `device`, or without one to where tensors were, is to others than the CPU."""
    return any(view.device is not None for view in manifest.views) if device is None else device != "cpu"


def _devices(
    folder: Path, manifest: Manifest, device: "str | Device | None", load: LoadMode
) -> "contextlib.AbstractContextManager[DeviceTensors | None]":
    """What is on its way to devices from here on; None when all tensors go to the CPU."""
    if not goes_to_devices(manifest, device):
        return contextlib.nullcontext()
    # Local: thread pools and torch are nothing to those who stay on the CPU.
    from snapshot.device.loading import to_devices

    return to_devices(folder, manifest, device, load=load)


def load_tensors(folder: Path, manifest: Manifest, loader: Loader) -> list[memoryview]:
    """The memory of every stored tensor, counted through all shards."""
    memory: list[memoryview] = []
    for shard in manifest.shards:
        path = folder / shard.file
        memory += _tensors_of(path, shard, loader.shard(path, shard))
    return memory


def _tensors_of(path: Path, shard: Shard, memory: memoryview) -> list[memoryview]:
    """The memory of each of the shard's tensors, once its head is that of the manifest."""
    if blake3(memory[: shard.head_bytes]).hexdigest() != shard.head_digest:
        check_header(path, shard, parse_head(path, memory))
        raise DigestMismatchError(path, "has another header than the manifest says")
    return [memory[tensor.offset : tensor.offset + tensor.num_bytes] for tensor in shard.tensors]


def check_header(path: Path, shard: Shard, header: Header) -> None:
    """Compare a shard's own header with the manifest, both ways. Raises BadHeaderError."""
    for tensor in shard.tensors:
        begin = tensor.offset - header.data_start
        listed = (tensor.dtype, tensor.shape, (begin, begin + tensor.num_bytes))
        entry = header.entries.get(tensor.name)
        found = entry and (entry.dtype, entry.shape, entry.data_offsets)
        if found != listed:
            raise BadHeaderError(path, f"tensor {tensor.name!r} is {found} in the file and {listed} in the manifest")
    names = {tensor.name for tensor in shard.tensors}
    if extra := [name for name in header.entries if name not in names and not name.startswith(FILLER_PREFIX)]:
        raise BadHeaderError(path, f"holds tensors that the manifest does not list: {', '.join(extra[:5])}")


def _read_skeleton(folder: Path, record: FileRecord) -> bytes:
    path = folder / record.file
    with opened(path, record.num_bytes) as descriptor, open(descriptor, "rb", closefd=False) as file:
        skeleton = file.read()
    if (digest := digest_bytes(skeleton)[0]) != record.digest:
        raise DigestMismatchError(path, f"has digest {digest}, the manifest says {record.digest}")
    return skeleton


class _Unpickler(pickle.Unpickler):
    """Unpickles a skeleton; each reference becomes its tensor, array or path, the same object each time it is met."""

    def __init__(
        self,
        skeleton: bytes,
        folder: Path,
        manifest: Manifest,
        stored: "tuple[list[memoryview], DeviceTensors | None]",
    ) -> None:
        self._memory, self._devices = stored
        super().__init__(io.BytesIO(skeleton), buffers=self._buffers(manifest))
        self._folder = folder
        self._views = manifest.views
        self._made: dict[int, object] = {}
        self._storages: dict[tuple[int, str], torch.UntypedStorage] = {}
        self._wholes: dict[int, torch.Tensor] = {}  # by stored tensor

    def load_graph(self) -> object:
        """Raises ThawError, whatever it was that failed, unless it has a name in this package already."""
        try:
            self._make_ahead()
            return self.load()
        except SnapshotError:
            raise
        except Exception as error:
            raise ThawError(
                f"{self._folder}: cannot rebuild the object graph: {type(error).__name__}: {error}"
            ) from error

    def persistent_load(self, reference: int | str) -> object:
        if isinstance(reference, str):
            return self._folder / reference
        if reference not in self._made:
            self._made[reference] = self._make(self._views[reference])
        return self._made[reference]

    def _make(self, view: View) -> object:
        if view.form == "numpy":
            return arrays.from_view(view, self._memory[view.tensor])
        place = (view.tensor, self._devices.device_of(view) if self._devices else "cpu")
        if place not in self._storages:
            self._storages[place] = self._storage(*place)
        if view.form == "storage":
            return tensors.storage_from_view(view, self._storages[place])
        return tensors.from_view(view, self._storages[place])

    def _make_ahead(self) -> None:
        """Make what is a whole stored tensor on the CPU: in one go that takes half of the time.

        Where several views lie in one stored tensor, the others get the storage of the first.
        """
        first: dict[int, int] = {}  # by stored tensor
        for number, view in enumerate(self._views if self._devices is None else ()):
            if view.form in tensors.FORMS:
                first.setdefault(view.tensor, number)
        made = tensors.wholes([self._views[number] for number in first.values()], self._memory) if first else ()
        for (tensor, number), whole in zip(first.items(), made, strict=True):
            if whole is not None:
                self._made[number] = self._wholes[tensor] = whole

    def _storage(self, tensor: int, device: str) -> "torch.UntypedStorage":
        if tensor in self._wholes:
            return self._wholes[tensor].untyped_storage()
        loaded = self._devices.storage(tensor, device) if self._devices else None
        return tensors.storage_on(self._memory[tensor], device) if loaded is None else loaded

    def _buffers(self, manifest: Manifest) -> Iterator[memoryview]:
        for view in manifest.views:
            if view.form == "buffer":
                yield self._memory[view.tensor][view.start : view.start + view.shape[0]]


def _unpickler(watch: "Watching | None") -> type[_Unpickler]:
    """Another class where somebody watches: what pickle calls for each class costs time otherwise."""
    if watch is None:
        return _Unpickler
    watching = watch

    class Watched(_Unpickler):
        def find_class(self, module: str, name: str) -> object:
            found: object = super().find_class(module, name)
            watching.named(found)
            return found

        def _make_ahead(self) -> None:
            """Each is waited for when it is taken."""

        def _make(self, view: View) -> object:
            watching.taken(view.tensor)
            return super()._make(view)

        def _buffers(self, manifest: Manifest) -> Iterator[memoryview]:
            buffers = [view for view in manifest.views if view.form == "buffer"]
            for view, buffer in zip(buffers, super()._buffers(manifest), strict=True):
                watching.taken(view.tensor)
                yield buffer

    return Watched
