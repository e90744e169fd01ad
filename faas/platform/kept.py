"""What revisions run from, kept for as long as they are: copies of their sources, links to their snapshots' files.

    ROOT/code/DIGEST/        the folder of the target: the user's sources as they were, links to all that lies beside
                             them; named by what the sources are and where they were
    ROOT/bundles/DIGEST/     a bundle that came from elsewhere, whole, named by its content
    ROOT/snapshots/DIGEST/   hard links to the files of a snapshot, so that no pruning of its store takes them

A rollback, or an instance that starts late, so runs what was deployed, whatever the user's files hold by then.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from blake3 import blake3

from faas.errors import NotPrepared, PlatformError
from faas.modules import HOME, OURS
from faas.platform import bundles
from faas.preparation import Preparation, file_digest
from faas.targets import Target
from snapshot.s3_address import is_s3 as is_remote

_STAGING = ".staging-"
_DIGEST_LENGTH = 16


class Kept:
    """The folders below `root`. One process alone writes there."""

    def __init__(self, root: Path) -> None:
        self._code = root / "code"
        self._snapshots = root / "snapshots"
        self._bundles = root / "bundles"
        self._taken: list[Path] = []

    def keep(self, preparation: Preparation) -> Preparation:
        """Return the same, to be run from copies.

        Sources outside of the target's folder, and a target that is installed, stay where they are.

        Raises:
            NotPrepared: a source has changed since the function was made ready.
            PlatformError: the copies cannot be written.
        """
        try:
            return msgspec.structs.replace(
                preparation, code=self._keep_code(preparation), snapshot=self._keep_snapshot(preparation)
            )
        except OSError as error:
            raise PlatformError(f"cannot keep what {preparation.name} runs from: {error}") from None

    def take_bundle(self, copy: Callable[[Path], None]) -> Path:
        """Return the folder of a bundle whose files `copy` puts there. It stays until it is released, and then while a
        revision runs from it.

        Raises:
            BundleError: it is not whole.
            OSError: it cannot be written. What `copy` raises.
        """
        self._bundles.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=self._bundles))
        self._taken.append(staging)
        try:
            copy(staging)
            bundles.read(staging)
            folder = self._bundles / bundles.content_digest(staging)[:_DIGEST_LENGTH]
            self._taken.append(folder)
            if not folder.is_dir():
                staging.rename(folder)
            return folder
        finally:
            self._taken.remove(staging)
            shutil.rmtree(staging, ignore_errors=True)

    def release_bundle(self, folder: Path) -> None:
        """Let a bundle's folder go, unless a revision runs from it."""
        self._taken.remove(folder)

    def missing(self, preparation: Preparation) -> str | None:
        """Return why a revision cannot run any more, or None while it can."""
        if preparation.code is not None and not Path(preparation.code.rpartition(":")[0]).exists():
            return f"its code, {preparation.code}, is gone"
        return preparation.unfit() if preparation.code is not None else preparation.stale()

    def keep_only(self, preparations: Iterable[Preparation]) -> None:
        """Remove what none of these runs from, and what a process that was killed has left."""
        used = list(preparations)
        for folder in (self._code, self._snapshots, self._bundles):
            for path in folder.glob("*"):
                is_used = any(_is_below(path, one.code) or _is_below(path, one.snapshot) for one in used)
                if not is_used and path not in self._taken:
                    shutil.rmtree(path, ignore_errors=True)

    def _keep_code(self, preparation: Preparation) -> str | None:
        if _is_below(self._bundles, preparation.runs):
            return preparation.runs
        target = Target.of(preparation.description.target)
        sources = {
            Path(path).relative_to(target.folder): digest
            for path, digest in preparation.origin.sources.items()
            if Path(path).is_relative_to(target.folder)
        }
        if target.folder == HOME or not any(target.folder / path in target.sources for path in sources):
            return None
        identity = [str(target.folder), sorted((str(path), digest) for path, digest in sources.items())]
        folder = self._code / blake3(msgspec.json.encode(identity)).hexdigest()[:_DIGEST_LENGTH]
        if not folder.is_dir():
            self._publish(folder, lambda staging: _mirror(target.folder, staging, sources))
        return target.moved(folder).text

    def _keep_snapshot(self, preparation: Preparation) -> str | None:
        if preparation.snapshot is None or preparation.digest is None or is_remote(preparation.snapshot):
            return preparation.snapshot
        source = Path(preparation.snapshot)
        folder = self._snapshots / preparation.digest.rpartition(":")[2][:_DIGEST_LENGTH]
        if source == folder or folder.is_dir():
            return str(folder)
        try:
            self._publish(folder, lambda staging: _link(source, staging))
        except OSError:  # another file system: it is used where it is
            return preparation.snapshot
        return str(folder)

    @staticmethod
    def _publish(folder: Path, fill: Callable[[Path], None]) -> None:
        """Make a folder whole or not at all."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=_STAGING, dir=folder.parent))
        try:
            fill(staging)
            staging.rename(folder)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise


def _mirror(origin: Path, folder: Path, sources: dict[Path, str]) -> None:
    """Copy the sources from `origin` to `folder`, and link what lies beside them."""
    parents = {parent for path in sources for parent in path.parents}
    for parent in parents:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    for parent in parents:
        for found in (origin / parent).iterdir():
            path = parent / found.name
            if path not in parents and path not in sources and not _is_left(path, found):
                (folder / path).symlink_to(found)
    for path, digest in sources.items():
        shutil.copy(origin / path, folder / path)
        if file_digest(folder / path) != digest:
            raise NotPrepared(f"{origin / path} has changed since it was made ready; give the same command again")


def _is_left(path: Path, found: Path) -> bool:
    """Tell whether something is not linked: compiled modules, and where the folder is our own home, our packages."""
    return path.name == "__pycache__" or (str(path) in OURS and (found / "__init__.py").is_file())


def _link(source: Path, folder: Path) -> None:
    """Have the files of `source` in `folder` too."""
    for parent, folders, files in os.walk(source):
        here = folder / Path(parent).relative_to(source)
        for name in folders:
            (here / name).mkdir()
        for name in files:
            os.link(Path(parent, name), here / name)


def _is_below(folder: Path, path: str | None) -> bool:
    return path is not None and Path(path).is_relative_to(folder)
