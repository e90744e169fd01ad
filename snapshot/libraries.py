"""Versions of the installed libraries that an object graph refers to."""

import os
import re
import sys
from collections.abc import Iterable, Mapping


def distributions_of(modules: Iterable[str]) -> dict[str, str]:
    """Distribution name -> version of the installed distributions that hold `modules`.

    The standard library, this package itself and modules that belong to no distribution (the user's own) are left out.
    """
    # Local: only freezing maps modules to distributions, and the map takes longer to build than a thaw.
    from importlib import metadata

    tops = {module.partition(".")[0] for module in modules}
    tops -= sys.stdlib_module_names | {__package__}
    owners = metadata.packages_distributions()
    names = {name for top in tops for name in _owning(top, owners.get(top, ()))}
    return {name: metadata.version(name) for name in sorted(names)}


def _owning(top: str, candidates: Iterable[str]) -> Iterable[str]:
    return set(candidates)


def mismatches(wanted: Mapping[str, str]) -> dict[str, tuple[str, str | None]]:
    """Those of `wanted` (name -> version) that are installed otherwise: name -> (wanted version, installed or None)."""
    here = _installed()
    return {
        name: (version, found)
        for name, version in wanted.items()
        if (found := here.get(_normalised(name)) or _ask_metadata(name)) != version
    }


_DIST_INFO = re.compile(r"(.+?)-(.+)\.dist-info")


def _installed() -> dict[str, str]:
    """Normalised name -> version, from the names of the installers' folders: far quicker than reading their files."""
    found: dict[str, str] = {}
    for entry in sys.path:
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        for name in names:
            if match := _DIST_INFO.fullmatch(name):
                found.setdefault(_normalised(match[1]), match[2])
    return found


def _ask_metadata(name: str) -> str | None:
    """For what is installed in another way than by a wheel."""
    from importlib import metadata  # local: rarely needed

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
