"""Which snapshot a user means: that of a function or model, an older one of it, a version, or the one in a folder."""

from __future__ import annotations

from pathlib import Path

from faas import names
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.cli.versions import number
from faas.preparation import Preparation, Preparations
from snapshot.errors import SnapshotNotFoundError
from snapshot.local_store import LocalStore
from snapshot.manifest import MANIFEST_FILE
from snapshot.store import is_name


def find(meant: str, root: Path) -> tuple[Preparation | None, Path]:
    """Return the folder of the snapshot that `meant` names, and what was made ready where it names a function.

    Raises:
        Failure: there is none.
    """
    found, folder = look_for(meant, root)
    if folder is None:
        assert found is not None
        raise Failure(f"{meant} has no snapshot: {found.reason}", f"faas snapshot create {found.description.target}")
    return found, folder


def look_for(meant: str, root: Path) -> tuple[Preparation | None, Path | None]:
    """Return the same, without a folder for a function whose state is not kept."""
    if (Path(meant) / MANIFEST_FILE).is_file():
        return None, Path(meant)
    name, at, digest = meant.partition("@")
    if digest.startswith("v"):
        return None, _of_version(names.label(name), number(digest), root)
    found = None if at else Preparations(root).read(names.label(name))
    if found is not None:
        return found, None if found.snapshot is None else Path(found.snapshot)
    store = LocalStore(root)
    if not (is_name(name) and store.history(name)):
        name = names.label(name)
    try:
        return None, store.folder(store.find(name, digest or None))
    except SnapshotNotFoundError as error:
        if store.history(name):
            raise Failure(str(error), "give NAME@DIGEST with one of these", CALL_WAS_WRONG) from None
    known = sorted({*store.names(), *(preparation.name for preparation in Preparations(root).all())})
    near = names.suggestion(name, known) or (f"; it has: {', '.join(known)}" if known else "")
    what = f"{root} has nothing of a function {name!r}{near}"
    raise Failure(what, "faas snapshot create TARGET makes it", CALL_WAS_WRONG)


def _of_version(name: str, version: int | None, root: Path) -> Path:
    """Return the folder of a numbered version. Raises Failure where there is none."""
    known = LocalStore(root).versions(name)
    if version not in known:
        listed = ", ".join(map(str, sorted(known))) or "none"
        what = f"{name} has no version {version}; it has: {listed}"
        raise Failure(what, "faas snapshot create TARGET --version makes one", CALL_WAS_WRONG)
    return root / name / known[version]
