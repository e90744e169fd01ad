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

    `source` is the name that `faas snapshot import` gave it, or the folder of a snapshot. No thread outlives the call.

    Raises:
        snapshot.SnapshotNotFoundError: there is none of that name.
        snapshot.DamagedError: its files are not what its manifest says.
    """
    if isinstance(source, Path) or (Path(source) / MANIFEST_FILE).is_file():
        return snapshot.open_weights(Path(source), load=load, background=False)
    store = snapshot.LocalStore(settings.read().snapshots)
    found = store.find(source)
    return snapshot.open_weights(store.folder(found), expect_digest=found.digest, load=load, background=False)
