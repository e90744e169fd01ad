"""Layers that were made, kept by what they were made of."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from deploy.image.layer import File, Layer, input_digest, write


class LayerCache:
    """A folder of them. What is there is not made again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str, make: Callable[[Path], Layer]) -> Layer:
        """The layer of `key`, made by `make` at the path that it is given where there is none yet."""
        path, record = self._folder / f"{key}.tar.gz", self._folder / f"{key}.json"
        known = self._known(path, record)
        if known is not None:
            return known
        self._folder.mkdir(parents=True, exist_ok=True)
        layer = make(path)
        temporary = record.with_name(f"{record.name}.{os.getpid()}.part")
        temporary.write_text(json.dumps({**asdict(layer), "path": path.name}))
        temporary.replace(record)  # last: a layer with a record is whole
        return layer

    def of_files(self, files: Iterable[File], *, created_by: str) -> Layer:
        """The layer of these files."""
        listed = list(files)
        return self.get(
            hashlib.sha256(f"{input_digest(listed)} {created_by}".encode()).hexdigest(),
            lambda path: write(listed, path, created_by=created_by),
        )

    def _known(self, path: Path, record: Path) -> Layer | None:
        try:
            layer = Layer(**{**json.loads(record.read_text()), "path": path})
            return layer if path.stat().st_size == layer.size_bytes else None
        except (OSError, ValueError, TypeError):
            return None
