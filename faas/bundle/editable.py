"""Projects that are installed from where they are written (`pip install -e`), and what is known of them by that.

Their modules lie in no installation, and travel as the user's own. Code may ask what their installation says of them,
mostly which version they are, so that travels beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

_KEPT = ("METADATA", "entry_points.txt")


class _Origin(msgspec.Struct):
    """What `direct_url.json` says (PEP 610)."""

    url: str
    dir_info: dict[str, object] = {}


def records(files: Iterable[Path]) -> dict[str, bytes]:
    """Return what is known of the projects that some files are of, by path, as installers write it (PEP 376)."""
    found: dict[str, bytes] = {}
    modules = list(files)
    for distribution in metadata.distributions():
        root = _root(distribution)
        if root is None or not any(file.is_relative_to(root) for file in modules):
            continue
        folder = f"{distribution.name.replace('-', '_')}-{distribution.version}.dist-info"
        texts = ((name, distribution.read_text(name)) for name in _KEPT)
        found |= {f"{folder}/{name}": text.encode() for name, text in texts if text is not None}
    return found


def _root(distribution: metadata.Distribution) -> Path | None:
    """Return the folder that a project is installed from; None where that is not so, and for this framework itself."""
    origin = distribution.read_text("direct_url.json")
    if origin is None or distribution.name == "faas":
        return None
    try:
        direct_url = msgspec.json.decode(origin, type=_Origin)
    except msgspec.MsgspecError:  # not as installers write it: what is known by that is nothing to a bundle
        return None
    return Path(unquote(urlsplit(direct_url.url).path)) if direct_url.dir_info.get("editable") is True else None
