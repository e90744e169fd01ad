"""The runtime image: a base that has Python, and on it this framework, what it depends on, and how it is started.

Images of functions are that image and a layer or two (`layers_of_function`). `deploy/Dockerfile.cpu` makes the same
with a daemon; a test holds the two together.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy import library_bytecode, wheels
from deploy.image import (
    SCRATCH,
    Changes,
    Connection,
    File,
    Image,
    Layer,
    LayerCache,
    Platform,
    Progress,
    Pushed,
    append,
    inspect,
    layers_of,
)
from deploy.image import layer as layers
from deploy.image.errors import WrongPlatform
from faas.bundle.manifest import SNAPSHOT
from faas.deployment import own_wheel
from faas.deployment.plan import BUNDLE
from snapshot.manifest import MANIFEST_FILE, SKELETON_FILE

PACKAGES: Final = "/opt/faas/packages"
LIBRARIES: Final = "/opt/faas/libraries"
PORT: Final = 8000
_STATE: Final = f"{BUNDLE}/{SNAPSHOT}"

PYTHON_LABEL: Final = "faas.python"
PACKAGES_LABEL: Final = "faas.packages"
"""The versions of the packages that a runtime image has, as JSON."""

_OF_ALPINE: Final = re.compile(r"\balpine-minirootfs\b|\bapk (?:--\S+ )*add\b")
_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_ENV: Final = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONSAFEPATH": "1",
    "PYTHONUNBUFFERED": "1",
    "HOME": "/tmp",
    "USER": "faas",  # no list of users has our number, and libraries that ask who they are fail by that: torch does
    "FAAS_HOME": "/tmp/faas",  # what a read-only root file system has to write on
}
# A number, as Kubernetes cannot tell of a name that it is not root.
_USER: Final = "65532:65532"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What goes into a runtime image: `extras` of this framework, more `requirements`, and `constraints` on all of it.

    `glibc` is the oldest C library that the base may have.
    """

    extras: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    platform: Platform = field(default_factory=Platform)
    glibc: tuple[int, int] = (2, 34)

    @property
    def target(self) -> wheels.Target:
        """Where its packages are to run."""
        return wheels.Target(python=_PYTHON, platform=self.platform, glibc=self.glibc)


def push(
    base: str | Path,
    to: str,
    recipe: Recipe,
    *,
    cache: Path,
    connection: Connection | None = None,
    progress: Progress = lambda transfer: None,
    step: Callable[[str], None] = lambda text: None,
) -> Pushed:
    """Push the runtime image `to`, on an image in a registry, or on a root file system: a folder, or a tar of one.

    Raises:
        ImageError: it cannot be made or pushed.
        NotPrepared: this framework is not installed.
    """
    kept = LayerCache(cache / "layers")
    if isinstance(base, str):
        below = _library_of(base, recipe.platform, kept, connection=connection, step=step)
    else:
        root = of_rootfs(base, kept, step)
        below = [
            root,
            *library_bytecode.layers(root.diff_id, lambda: [root.path], python=_PYTHON, cache=kept, step=step),
        ]
    versions, packages = _packages(recipe, cache, kept, step)
    return append(
        base if isinstance(base, str) else SCRATCH,
        to,
        [*below, *packages],
        changes=changes(versions),
        platform=recipe.platform,
        connection=connection,
        progress=progress,
    )


def changes(versions: Mapping[str, str]) -> Changes:
    """How an image with our packages is started; `versions` are theirs."""
    return Changes(
        entrypoint=("faas",),
        command=("serve", "--bundle", BUNDLE),
        env=_ENV,
        search={"PATH": f"{LIBRARIES}/bin:{PACKAGES}/bin", "PYTHONPATH": f"{LIBRARIES}:{PACKAGES}"},
        user=_USER,
        workdir="/tmp",
        labels={PYTHON_LABEL: _PYTHON, PACKAGES_LABEL: json.dumps(dict(versions), sort_keys=True)},
        ports=(PORT,),
    )


def lock(
    requirements: Iterable[str],
    runtime: Image,
    *,
    cache: Path,
    step: Callable[[str], None] = lambda text: None,
) -> wheels.Lock:
    """What a function's requirements bring along, in versions that what is in the `runtime` image takes.

    Raises:
        ImageError: there is nothing that fits.
    """
    needed = tuple(requirements)
    if not needed:
        return wheels.Lock(())
    bounds = _bounds(provided_by(runtime))
    return wheels.resolve(needed, _target_of(runtime), cache=cache / "locks", constraints=bounds, step=step)


def layers_of_function(
    bundle: Path,
    lock: wheels.Lock,
    runtime: Image,
    *,
    cache: Path,
    step: Callable[[str], None] = lambda text: None,
) -> list[Layer]:
    """What a function's image has on top of the `runtime` image: packages that are not in it yet, and the bundle.

    Raises:
        ImageError: they cannot be made.
    """
    kept, made = LayerCache(cache / "layers"), []
    if (needed := lock.without(provided_by(runtime))).pins:
        made.append(wheels.layer(needed, _target_of(runtime), at=LIBRARIES, cache=kept, step=step))
    files = list(layers.of_folder(bundle, BUNDLE))
    if tensors := [file for file in files if _is_of_tensors(file)]:
        # By themselves, below what changes more often: a change of the code does not send them again.
        made.append(kept.of_files(tensors, created_by=f"faas: the tensors in {_STATE}"))
    code = [file for file in files if not _is_of_tensors(file)]
    return [*made, kept.of_files(code, created_by=f"faas: the bundle in {BUNDLE}")]


def _target_of(runtime: Image) -> wheels.Target:
    platform = Platform(runtime.config["os"], runtime.config["architecture"], runtime.config.get("variant"))
    return wheels.Target(python=runtime.labels.get(PYTHON_LABEL, _PYTHON), platform=platform)


def _bounds(provided: Mapping[str, str]) -> list[str]:
    """What this framework needs of packages that are in a runtime image: a function's come to stand in their place."""
    needed = (Requirement(text) for text in metadata.requires("faas") or ())
    own = (one for one in needed if one.marker is None or one.marker.evaluate({"extra": ""}))
    return sorted({f"{one.name}{one.specifier}" for one in own if canonicalize_name(one.name) in provided})


def _is_of_tensors(file: File) -> bool:
    """Whether a file of a bundle is one of a snapshot's shards: what the snapshot says of itself changes with code."""
    above, _, name = file.path.rpartition("/")
    return file.source is not None and above.startswith(_STATE) and name not in (MANIFEST_FILE, SKELETON_FILE)


def provided_by(runtime: Image) -> dict[str, str]:
    """The versions of the packages that a runtime image says it has."""
    try:
        found = json.loads(runtime.labels.get(PACKAGES_LABEL, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def of_rootfs(source: Path, cache: LayerCache, step: Callable[[str], None] = lambda text: None) -> Layer:
    """The layer of a root file system: a folder, or a tar of one. Raises BadSource."""
    if source.is_dir():
        step(f"reading {source}")
        return cache.of_files(layers.of_root(source), created_by="faas: a root file system")

    def make(path: Path) -> Layer:
        step(f"packing {source.name}")
        return layers.of_tar(source, path, created_by="faas: a root file system")

    return cache.get(layers.input_digest([layers.File("/root.tar", source)]), make)


def _library_of(
    base: str, platform: Platform, kept: LayerCache, *, connection: Connection | None, step: Callable[[str], None]
) -> list[Layer]:
    """The bytecode that an image in a registry lacks, once it is seen to have our Python."""
    name, image = inspect(base, platform=platform, connection=connection)
    _check_base(base, image)
    with tempfile.TemporaryDirectory(prefix="faas-base-") as scratch:

        def read() -> Iterator[Path]:
            step(f"reading {base}")
            yield from layers_of(name, Path(scratch), platform=platform, connection=connection)

        return library_bytecode.layers(name, read, python=_PYTHON, cache=kept, step=step)


def _packages(
    recipe: Recipe, cache: Path, kept: LayerCache, step: Callable[[str], None]
) -> tuple[dict[str, str], list[Layer]]:
    """The versions, and the layers of what this framework needs (large, and seldom new) and of itself."""
    with tempfile.TemporaryDirectory(prefix="faas-wheel-") as scratch:
        own = own_wheel.write(Path(scratch))
        version = own.name.split("-")[1]
        extras = f"[{','.join(sorted(recipe.extras))}]" if recipe.extras else ""
        lock = wheels.resolve(
            [f"faas{extras}=={version}", *recipe.requirements],
            recipe.target,
            cache=cache / "locks",
            constraints=recipe.constraints,
            find_links=[own.parent],
            step=step,
        )
        needed = lock.without({"faas": version})
        made = [
            wheels.layer(part, recipe.target, at=PACKAGES, cache=kept, find_links=[own.parent], step=step)
            for part in (needed, lock.without(needed.versions))
        ]
    return lock.versions, made


def _check_base(base: str, image: Image) -> None:
    """See that a base has our Python, as far as it says, and a C library that packages are compiled for."""
    said = image.environment.get("PYTHON_VERSION", "")
    if said and not said.startswith(f"{_PYTHON}."):
        raise WrongPlatform(f"{base} has Python {said}, this is {_PYTHON}", f"take one with {_PYTHON}")
    if any(_OF_ALPINE.search(str(made.get("created_by"))) for made in image.config.get("history") or ()):
        raise WrongPlatform(
            f"{base} is made of Alpine Linux, whose C library is another than wheels of packages are made for",
            f"take one of Debian or the like, such as python:{_PYTHON}-slim",
        )
