"""Where the numbered versions of a function's state are."""

from __future__ import annotations

from pathlib import Path

import msgspec

from faas.preparation import Preparation
from faas.targets import Target
from snapshot.local_store import LocalStore
from snapshot.s3_address import is_s3
from snapshot.store import VERSIONS


def folder_of(name: str, store: Path) -> Path:
    """Return the folder in a store where a function's own versions are."""
    return store / name / VERSIONS


def at(source: str, folder: Path) -> str:
    """Return the place that a function's settings name; a folder is looked for from that of its code."""
    return source if is_s3(source) else str(folder / Path(source).expanduser())


def with_place(preparation: Preparation, store: Path) -> Preparation:
    """Return the same with where its versions are now.

    A function has versions when it asks for them, or when there are some of it in the store.
    """
    description, place = preparation.description, None
    if description.versions_source is not None:
        place = at(description.versions_source, Target.of(description.target).folder)
    elif description.is_versioned or LocalStore(store).versions(description.name):
        place = str(folder_of(description.name, store))
    return msgspec.structs.replace(preparation, versions=place)


def in_bundle(preparation: Preparation, folder: Path) -> Preparation:
    """Return the preparation of a bundle with where its versions are: what its settings name, or in the bundle."""
    source, inside = preparation.description.versions_source, folder / VERSIONS
    place = at(source, folder) if source is not None else str(inside) if inside.is_dir() else None
    return msgspec.structs.replace(preparation, versions=place)
