"""Bundles: one function with the code that it reaches, in a folder that any machine can run it from.

    bundle.json          what it is: `Bundle`; its digest is the bundle's address
    code/                the local modules that the function reaches, and the files that were asked for beside them
    payload.pickle       what no file holds: code of a script or a notebook, by value, and rebound globals
    preparation.json     where the function was made ready: what is known of it, as a store holds it
    snapshot/            its frozen state, where that was asked for

Modules travel as their source and are imported from the bundle: so classes, lazy imports, `__file__` and tracebacks are
what they are at home. `__main__` and notebook cells have no file that may be run again, and travel by value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from faas.bundle.errors import BadBundle, BundleError, IncompatibleBundle, Unbundleable
from faas.bundle.loading import load
from faas.bundle.manifest import Bundle
from faas.bundle.reading import read

if TYPE_CHECKING:
    from faas.bundle.archive import pack, unpack
    from faas.bundle.making import make

__all__ = [
    "BadBundle",
    "Bundle",
    "BundleError",
    "IncompatibleBundle",
    "Unbundleable",
    "load",
    "make",
    "pack",
    "read",
    "unpack",
]


def __getattr__(name: str) -> object:
    """Import what makes bundles when it is asked for: an instance only reads and loads them."""
    if name == "make":
        from faas.bundle.making import make

        return make
    if name in ("pack", "unpack"):
        from faas.bundle import archive

        return getattr(archive, name)
    raise AttributeError(f"module 'faas.bundle' has no attribute {name!r}")
