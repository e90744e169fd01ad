"""What was learned, in a file that all instances of a function on a machine share."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from faas.engine.selection.contexts import Changes, Contexts
from faas.engine.selection.weights import Logs

_FORMAT: Final = 1

_log = logging.getLogger(__name__)


class _Written(msgspec.Struct):
    format: int
    contexts: dict[str, dict[str, float]]


class StateFile:
    """Weights by context in a JSON file. Its methods wait for the disk and for other instances: call them on a thread.

    An instance does not write what it knows, it adds what it has learned since it last did, under a lock: logarithms
    of weights add up, so what several instances learn is as if one had. The file is replaced whole or not at all.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def merge(self, changes: Changes, names: Sequence[str], least: float) -> Mapping[str, Logs]:
        """Add `changes` to what the file holds, and return what it then holds. Without changes it is only read.

        Raises:
            OSError: it can be neither read nor written.
        """
        if not changes:
            return self._read()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._alone():
            known = Contexts(names, least)
            known.replace(self._read())
            known.add(changes)
            self._write(known.learned())
        return known.learned()

    def _read(self) -> Mapping[str, Logs]:
        try:
            written = _DECODER.decode(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except msgspec.MsgspecError as error:
            _log.warning("%s is no file of ours (%s); what it held is not used, and is lost", self.path, error)
            return {}
        if written.format != _FORMAT:
            _log.warning(
                "%s has format %d, not %d; what it held is not used, and is lost", self.path, written.format, _FORMAT
            )
            return {}
        return written.contexts

    def _write(self, learned: Mapping[str, Logs]) -> None:
        fresh = self.path.with_suffix(".new")
        with fresh.open("wb") as held:
            held.write(msgspec.json.encode(_Written(_FORMAT, {name: dict(logs) for name, logs in learned.items()})))
            held.flush()
            os.fsync(held.fileno())
        fresh.replace(self.path)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self.path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


_DECODER: Final = msgspec.json.Decoder(_Written)
