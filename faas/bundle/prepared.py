"""What a bundle knows of its function since it was made ready elsewhere, as far as that is of use here."""

from __future__ import annotations

from pathlib import Path

import msgspec

from faas.bundle.errors import BadBundle
from faas.bundle.manifest import MANIFEST, PREPARATION, SNAPSHOT, Bundle
from faas.preparation import Preparation


def prepared(folder: Path, bundle: Bundle) -> Preparation | str | None:
    """Return the preparation that a bundle holds, to be run from `folder`, or in words why it cannot be used here.

    None where it holds none. Its sources are the bundle's code, whose digests were looked at when it was read.

    Raises:
        BadBundle: it is no preparation.
    """
    if PREPARATION not in bundle.files:
        return None
    try:
        found = msgspec.json.decode((folder / PREPARATION).read_bytes(), type=Preparation)
    except (OSError, msgspec.MsgspecError) as error:
        raise BadBundle(f"{PREPARATION}: {error}") from None
    moved = msgspec.structs.replace(found, code=f"{folder / MANIFEST}:{bundle.name}")
    if f"{SNAPSHOT}/manifest.json" in bundle.files:
        moved = msgspec.structs.replace(moved, snapshot=str(folder / SNAPSHOT))
    return moved.unfit() or moved
