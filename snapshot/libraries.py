"""Versions of the installed libraries that an object graph refers to."""

import functools
import os
import re
import sys
from collections.abc import Iterable, Mapping


def distributions_of(modules: Iterable[str]) -> dict[str, str]:
    """Distribution name -> version of the installed distributions that hold `modules`.

    The standard library, this package itself and modules that belong to no distribution (the user's own) are left out.
    """
    from importlib import metadata  # local: slow, and only freezing asks

    owners = _distributions_by_package(tuple(sys.path))
    names: set[str] = set()
    for module in modules:
        top = module.partition(".")[0]
        if top != __package__ and top not in sys.stdlib_module_names:
            names.update(_owners_of(module, owners.get(top, [])))
    return {name: metadata.version(name) for name in sorted(names)}


@functools.cache
def _distributions_by_package(search_path: tuple[str, ...]) -> Mapping[str, list[str]]:
    """Importable name -> distributions that provide it; the search path is what the answer is cached for."""
    from importlib import metadata  # local: as above

    return metadata.packages_distributions()


def _owners_of(module: str, candidates: list[str]) -> list[str]:
    """Of the distributions that share a namespace, those that hold the module's file."""
    if len(candidates) == 1 or not (file := getattr(sys.modules.get(module), "__file__", None)):
        return candidates
    from importlib import metadata  # local: as above

    listed = {name: metadata.distribution(name) for name in candidates}
    return [name for name, owner in listed.items() if any(str(owner.locate_file(f)) == file for f in owner.files or ())]


def mismatches(wanted: Mapping[str, str]) -> dict[str, tuple[str, str | None]]:
    """Those of `wanted` (name -> version) that are installed otherwise: name -> (wanted version, installed or None)."""
    unproven = {name: version for name, version in wanted.items() if _version_in_use(name) != version}
    folders = _installed() if unproven else {}
    doubtful = (name for name, version in unproven.items() if folders.get(normalised(name)) != version)
    found = {name: _ask_metadata(name) for name in doubtful}
    return {name: (wanted[name], version) for name, version in found.items() if version != wanted[name]}


def _version_in_use(name: str) -> str | None:
    """The version of a library that is imported already and says it, as those of models do: quicker than any folder."""
    module = sys.modules.get(name.replace("-", "_"))
    version = getattr(module, "__version__", None)
    return None if version is None else str(version)


_SUFFIX = ".dist-info"


def _installed() -> dict[str, str]:
    """Normalised name -> version, from the names of the installers' folders: far quicker than reading their files."""
    found: dict[str, str] = {}
    for entry in sys.path:
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith(_SUFFIX):
                distribution, _, version = name.removesuffix(_SUFFIX).rpartition("-")
                found.setdefault(normalised(distribution), version)
    return found


def _ask_metadata(name: str) -> str | None:
    """The version for certain, for what a folder's name does not tell."""
    from importlib import metadata  # local: rarely needed, and slow

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def normalised(name: str) -> str:
    """The one spelling of a distribution's name."""
    name = name.lower().replace("_", "-").replace(".", "-")
    return name if "--" not in name else re.sub("-+", "-", name)
