"""Weights of imported models, as handlers take them in `setup()`."""

from __future__ import annotations

from pathlib import Path

import snapshot
from faas import settings
from snapshot.manifest import MANIFEST_FILE


def open_weights(source: str | Path, *, load: snapshot.LoadMode = "auto") -> snapshot.Weights:
    """Return the weights of an imported model: a mapped state dict, with `.config` and `.folder` (tokenizer files).

        weights = open_weights("smollm2")
        model.load_state_dict(weights, assign=True)

    `source` is the name that `faas snapshot import` gave it, or the folder of a snapshot. `load` is how it comes into
    memory, unless FAAS_SNAPSHOT_LOAD says it. No thread outlives the call.

    Raises:
        snapshot.SnapshotNotFoundError: there is none of that name.
        snapshot.DamagedError: its files are not what its manifest says.
    """
    found = settings.read()
    mode = found.snapshot_load or load
    if isinstance(source, Path) or (Path(source) / MANIFEST_FILE).is_file():
        return snapshot.open_weights(Path(source), load=mode, background=False)
    store = snapshot.LocalStore(found.snapshots)
    stored = store.find(source)
    return snapshot.open_weights(store.folder(stored), expect_digest=stored.digest, load=mode, background=False)
