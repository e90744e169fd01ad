"""Tensors by name: what an imported model thaws as, and what any snapshot holds when its skeleton is left alone."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from snapshot import arrays, tensors
from snapshot.errors import SnapshotNotFoundError
from snapshot.loader import Loader, LoadMode, loader_for
from snapshot.manifest import View
from snapshot.reducers import KeptFiles, kept_folder
from snapshot.thaw import load_tensors, use

CONFIG_FILE = "config.json"


class Weights(Mapping[str, Any]):
    """A model's tensors by name, in load order, with its configuration and tokenizer files.

        model.load_state_dict(weights, assign=True)

    The tensors are mapped, copy on write: they take memory where they are used, and writing to them changes this
    process alone. Names of tied weights give tensors that share their memory.

    folder: the files that were kept beside the tensors (config.json, tokenizer.json, ...); None when there are none
    """

    def __init__(self, by_name: Mapping[str, Any] | Iterable[tuple[str, Any]], folder: Path | None = None) -> None:
        self._by_name = dict(by_name)
        self.folder = folder

    def __getitem__(self, name: str) -> Any:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"<Weights: {len(self)} tensors, files in {self.folder}>"

    def __reduce__(self) -> tuple[Callable[..., "Weights"], tuple[object, ...]]:
        return Weights, (self._by_name, None if self.folder is None else _kept(self.folder))

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """The model's config.json, with infinite numbers as such. Raises SnapshotNotFoundError when none was kept."""
        if self.folder is None or not (self.folder / CONFIG_FILE).is_file():
            raise SnapshotNotFoundError(
                f"no {CONFIG_FILE} was kept with these weights: write the configuration yourself"
            )
        # Not by msgspec, which keeps to JSON: that has no word for infinity, and configurations of models have it.
        import json  # local: not every handler asks

        return dict(json.loads((self.folder / CONFIG_FILE).read_bytes(), object_hook=_number_or_object))


def _number_or_object(members: dict[str, Any]) -> Any:
    """The number that transformers writes as an object, since JSON has no word for it; any other object as it is."""
    spelt = members.get("__float__")
    return float(spelt) if len(members) == 1 and spelt in ("Infinity", "-Infinity", "NaN") else members


def _kept(folder: Path) -> KeptFiles:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return KeptFiles({path.relative_to(folder).as_posix(): path for path in files})


def open_weights(
    folder: Path,
    *,
    expect_digest: str | None = None,
    load: LoadMode = "auto",
    background: bool = True,
    loader: Loader | None = None,
) -> Weights:
    """The tensors and arrays of the snapshot in `folder`, and no more: nothing is unpickled, no code of it runs.

    It need not have been made by this version of Python, or with the libraries of this environment.

    expect_digest: the manifest's, where it is known
    load, background, loader: as for `thaw`
    Raises SnapshotNotFoundError, DamagedError, NotEnoughMemoryError.
    """
    folder = folder.resolve()
    manifest = use(folder, expect_digest)
    shards = [folder / shard.file for shard in manifest.shards]
    files = loader_for(shards, load, background=background) if loader is None else None
    memory = load_tensors(folder, manifest, files or cast("Loader", loader))
    if files is not None:
        files.read_ahead.begin()
    prefix = f"{kept_folder(0)}/"
    has_files = any(record.file.startswith(prefix) for record in manifest.files)
    return Weights(_by_name(manifest.views, memory), folder / prefix if has_files else None)


def _by_name(views: Iterable[View], memory: Sequence[memoryview]) -> Iterator[tuple[str, Any]]:
    """What each view with a name of its own stands for; bare memory has none."""
    storages: dict[int, Any] = {}
    for view in views:
        if view.form == "numpy":
            yield view.name, arrays.from_view(view, memory[view.tensor])
        elif view.form in ("torch", "parameter"):
            if view.tensor not in storages:
                storages[view.tensor] = tensors.storage_on(memory[view.tensor], "cpu")
            yield view.name, tensors.from_view(view, storages[view.tensor])
