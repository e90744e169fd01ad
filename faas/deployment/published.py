"""A packed function put where a cluster gets it from: the snapshot into the store, the code into an image or there."""

from __future__ import annotations

import platform
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.utils import canonicalize_name

from faas import bundle, s3
from faas.bundle import Bundle
from faas.bundle.manifest import ARCHIVE_SUFFIX
from faas.deployment import runtime_image
from faas.deployment.described import Code
from faas.deployment.packed import Packed, Step
from faas.preparation import Preparation
from snapshot.s3_address import S3Address

if TYPE_CHECKING:
    from deploy.image import Connection, Image, Progress
    from snapshot.s3_client import S3Client

_MACHINES: Final = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
_COMPILED: Final = re.compile(r"\.cpython-\d+-([\w-]+)\.so$")

BUNDLES: Final = ".bundles"
"""Where bundles lie in a store. No snapshot can be called so, since their names begin with a letter or a digit."""


@dataclass(frozen=True)
class Published:
    """Where the code is, the bytes that were sent, and what the user should know, in sentences."""

    code: Code
    sent_bytes: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Means:
    """What publishing is done with: a way to registries, a folder for layers and locks, and who is told."""

    connection: Connection
    cache: Path
    progress: Progress
    step: Step


def planned(packed: Packed) -> Code:
    """Return where the code of a function will be, as far as that is known before it is there."""
    if packed.plan.way == "image":
        return Code(image=f"{packed.plan.image}:{packed.revision}")
    return Code(image=packed.plan.base, bundle=_address(packed))


def publish(packed: Packed, means: Means) -> Published:
    """Put snapshot and code where they belong; what is there already is not sent.

    Raises:
        ImageError: the image cannot be made or pushed.
        SnapshotError: S3 does not take it.
        SettingError: what S3 needs is not installed.
    """
    sent_bytes = _push_snapshot(packed, means.step)
    made = _image(packed, means) if packed.plan.way == "image" else _archive(packed, means)
    return Published(made.code, made.sent_bytes + sent_bytes, made.notes)


def _push_snapshot(packed: Packed, step: Step) -> int:
    if not packed.plan.is_pushed_to_store or packed.preparation is None:
        return 0
    sent_bytes = push_snapshot(packed.preparation, str(packed.plan.store), step)
    if packed.plan.shipping.kind == "node-cache" and packed.digest is not None:
        from snapshot.pins import Pins  # boto3, as above

        Pins(str(packed.plan.store)).pin(packed.name, packed.digest)  # the nodes' caches fetch what is pinned
    return sent_bytes


def push_snapshot(preparation: Preparation, address: str, step: Step) -> int:
    """Put a function's snapshot, if it has one, into a store; returns how many bytes were sent.

    Raises:
        SnapshotError: S3 does not take it.
        SettingError: what S3 needs is not installed.
    """
    if preparation.snapshot is None:
        return 0
    client_of(address)  # says what is missing, where it is
    from snapshot import SnapshotNotFoundError
    from snapshot.s3_store import S3Store  # boto3 is nothing to a deployment into images

    store = S3Store(address)
    try:
        store.find(preparation.name, preparation.digest)
    except SnapshotNotFoundError:
        step(f"pushing the snapshot of {preparation.name} to {address}")
        store.publish(preparation.name, Path(preparation.snapshot))
        return preparation.state_bytes
    return 0


def _image(packed: Packed, means: Means) -> Published:
    from deploy.image import append  # httpx, which only pushing needs

    means.step(f"looking at {packed.plan.base}")
    base, runtime = _runtime(packed.plan.base, means.connection)
    check_python(packed.bundle, runtime, packed.plan.base)
    check_machine(packed.bundle, runtime, packed.plan.base)
    lock = runtime_image.lock(packed.bundle.requirements, runtime, cache=means.cache, step=means.step)
    layers = runtime_image.layers_of_function(packed.folder, lock, runtime, cache=means.cache, step=means.step)
    to = f"{packed.plan.image}:{packed.revision}"
    means.step(f"pushing {to}")
    pushed = append(base, to, layers, or_beside=True, connection=means.connection, progress=means.progress)
    return Published(
        Code(image=pushed.image),
        pushed.sent_bytes,
        (*other_version(runtime), *missing(packed.bundle, runtime, lock.versions)),
    )


def _runtime(base: str, connection: Connection) -> tuple[str, Image]:
    from deploy.image import inspect
    from deploy.image.errors import BadImage, NotInRegistry

    try:
        return inspect(base, connection=connection)
    except NotInRegistry as error:
        major, minor, _ = platform.python_version_tuple()
        raise BadImage(
            f"the runtime image {base} is not there",
            f"make it: faas image runtime --base python:{major}.{minor}-slim --to {base}, "
            "or name another in FAAS_BASE_IMAGE",
        ) from error


def at_present(image: str, connection: Connection) -> tuple[str, list[str]]:
    """Return the state of an image that its name stands for now, so that another of the name makes a new revision.

    Where the registry does not say, that is the name itself; and in sentences, what follows.
    """
    from deploy.image import ImageError, digest_of  # httpx, as above

    try:
        found, why = digest_of(image, connection=connection), "the registry does not say"
    except ImageError as error:
        found, why = None, error.problem
    if found is not None:
        return found, []
    return image, [
        f"which image {image} is at present was not found out ({why}): another of that name is taken with the next "
        "change alone; name it by its digest where that matters"
    ]


def _archive(packed: Packed, means: Means) -> Published:
    address = S3Address.parse(_address(packed))
    client = client_of(str(packed.plan.store))
    image, notes = at_present(packed.plan.base, means.connection)
    code = Code(image=image, bundle=_address(packed))
    if packed.bundle.requirements:
        notes.append(
            f"each instance of {packed.name} installs {', '.join(packed.bundle.requirements)} when it starts; in an "
            "image (FAAS_IMAGE) they are there"
        )
    size = client.size(address.prefix)
    if size is not None:
        return Published(code, 0, tuple(notes))
    means.step(f"putting the bundle of {packed.name} at {address}")
    with tempfile.TemporaryDirectory(prefix="faas-bundle-") as scratch:
        archive = Path(scratch, f"bundle{ARCHIVE_SUFFIX}")
        bundle.pack(packed.folder, archive)
        client.upload(address.prefix, archive, lambda done: None)
        return Published(code, archive.stat().st_size, tuple(notes))


def _address(packed: Packed) -> str:
    """Return the address of a function's bundle, which says what is in it: equal bundles are one object."""
    return f"{packed.plan.store}/{BUNDLES}/{packed.name}/{packed.bundle.digest}{ARCHIVE_SUFFIX}"


def check_python(made: Bundle, runtime: Image, base: str) -> None:
    """Refuse an image whose Python could not load the bundle, where it says which one it has. Raises WrongPlatform."""
    from deploy.image.errors import WrongPlatform

    theirs, ours = runtime.labels.get(runtime_image.PYTHON_LABEL), ".".join(made.python.split(".")[:2])
    if theirs not in (None, ours):
        raise WrongPlatform(
            f"the runtime image {base} has Python {theirs}, and {made.name} is packed with {ours}",
            f"deploy with Python {theirs}, or make one with {ours}: faas image runtime",
        )


def check_machine(made: Bundle, runtime: Image, base: str) -> None:
    """Refuse an image for another machine than the compiled modules of a bundle are for. Raises WrongPlatform."""
    from deploy.image.errors import WrongPlatform

    machine = _MACHINES.get(runtime.config["architecture"])
    for path in made.files:
        compiled = _COMPILED.search(path)
        if machine is not None and compiled is not None and compiled[1] != machine:
            raise WrongPlatform(
                f"{path} of {made.name} is compiled for {compiled[1]}, and the runtime image {base} is for {machine}",
                "build it there, or install it: a wheel of it goes into requirements=",
            )


def other_version(runtime: Image) -> list[str]:
    """Return what to say where a runtime image has another version of this framework than runs here."""
    theirs, ours = runtime_image.provided_by(runtime).get("faas"), metadata.version("faas")
    if theirs in (None, ours):
        return []
    return [f"the runtime image has faas {theirs}, this is {ours}; make a new one with faas image runtime"]


def missing(made: Bundle, runtime: Image, locked: Mapping[str, str]) -> list[str]:
    """Return what to say of packages that the code imports, and that neither the runtime image nor the requirements
    bring, of which these are `locked`; nothing where the image does not say what it has.
    """
    provided = {canonicalize_name(name) for name in runtime_image.provided_by(runtime)}
    if not provided:
        return []
    lacking = sorted(name for name in made.libraries if canonicalize_name(name) not in {*provided, *locked})
    if not lacking:
        return []
    wanted = ", ".join(
        [*(f'"{text}"' for text in made.requirements), *(f'"{name}=={made.libraries[name]}"' for name in lacking)]
    )
    return [
        f"the code of {made.name} imports {', '.join(lacking)}, which the runtime image does not have: write "
        f"requirements=[{wanted}], or put it there with faas image runtime --require"
    ]


def client_of(store: str) -> S3Client:
    """Return a client for the bucket of a store. Raises SettingError, BadAddressError."""
    return s3.client(S3Address.parse(store).bucket)
