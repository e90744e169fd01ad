"""What a deployment is to be, decided from where things may go: image or bundle, how the snapshot travels. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from faas.errors import SettingError

Way = Literal["image", "store"]
Delivery = Literal["image", "s3", "node-cache", "pvc", "oci", "none"]

BUNDLE: Final = "/opt/faas/bundle"
"""Where a function's bundle lies in its image."""
NODE_CACHE: Final = "/var/lib/faas/snapshots"
"""The folder of a node that holds its snapshots, one for all functions."""
LARGE_LAYER_BYTES: Final = 256 << 20
"""A frozen state from this size on is better streamed than pulled whole before anything can start."""
NOWHERE: Final = "repository.invalid"
"""What a manifest that is only looked at has in place of a repository. RFC 2606 keeps this name from being one."""
_SOURCES: Final = {
    "pvc": "the claim, as in pvc:models",
    "oci": "the image, as in oci:registry.example/team/models:1",
}
_REMEDY: Final = (
    "set FAAS_IMAGE (or --image) to a repository prefix such as registry.example/team, "
    "or FAAS_STORE (or --store) to s3://bucket/prefix and FAAS_BASE_IMAGE (or --base) to the runtime image that "
    "runs what lies there, or all of them"
)


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things may go, as options and environment say: `repository` is a prefix, `store` an address in S3.

    `code` is the way that the user chose for code and packages, `snapshot` the delivery that was asked for, as
    `pvc:NAME` with its claim or `oci:REFERENCE` with its image; None leaves the choice to `plan`.
    """

    repository: str | None = None
    base: str | None = None
    store: str | None = None
    code: Way | None = None
    snapshot: str | None = None


@dataclass(frozen=True, kw_only=True)
class Shipping:
    """How a snapshot travels: the `source` that a volume of it has, and `notes`, sentences for the user."""

    kind: Delivery = "none"
    source: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How one function comes to run. `image` is what its image is called, None where the base runs as it is.

    `base` is the runtime image.
    """

    way: Way
    base: str
    image: str | None = None
    store: str | None = None
    shipping: Shipping = Shipping()

    @property
    def is_pushed_to_store(self) -> bool:
        """Whether the snapshot is put into the store: to be streamed from there, or fetched to the nodes."""
        return self.store is not None and self.shipping.kind in ("s3", "node-cache")


def way(places: Places) -> Way:
    """Decide whether code goes into an image or into the store.

    Raises:
        SettingError: there is nowhere to put it; says what to set.
    """
    chosen = places.code or ("image" if places.repository else "store")
    if chosen == "image" and places.repository is None:
        raise SettingError(f"no repository is set for images to go to; {_REMEDY}")
    if chosen == "store" and places.store is None:
        raise SettingError(f"nothing says where the function is to go; {_REMEDY}")
    return chosen


def plan(places: Places, name: str, shipping: Shipping, *, base: str | None, version: str) -> Plan:
    """Decide for the function `name`.

    base: the image that the function itself asks for; goes before that of the environment
    version: of this framework and Python, by which the usual base is called

    Raises:
        SettingError: there is nowhere to put it, or no image to run in; says what to set.
    """
    chosen = way(places)
    found = base or places.base or (f"{places.repository}/{usual_base(version)}" if places.repository else None)
    if found is None:
        raise SettingError(
            f"{name} goes to {places.store}, and no image is named for it to run in: set FAAS_BASE_IMAGE (or --base) "
            f"to a runtime image, which faas image runtime --base python:3.11-slim --extra s3 --to "
            f"registry.example/team/{usual_base(version)} makes; or set FAAS_IMAGE (or --image) to "
            "registry.example/team, where one of that name is then looked for"
        )
    image = f"{places.repository}/{name}" if chosen == "image" else None
    return Plan(way=chosen, base=found, image=image, store=places.store, shipping=shipping)


def usual_base(version: str) -> str:
    """Return the name, below a repository, of the runtime image that is used where no other is named."""
    return f"faas-runtime:{version}"


def looked_at(places: Places) -> Places:
    """Return places for a manifest that is only looked at: where none is set, a name that cannot be one stands in."""
    if places.repository is not None or (places.store is not None and places.base is not None):
        return places
    return Places(repository=NOWHERE, base=places.base, store=places.store, code=places.code, snapshot=places.snapshot)


def check(places: Places) -> None:
    """Refuse places to which nothing can go, whatever it is. Raises SettingError."""
    way(places)
    _asked(places.snapshot)


def shipping(places: Places, name: str, state_bytes: int | None) -> Shipping:
    """Decide how the snapshot of the function `name` travels; `state_bytes` None says that it has none.

    Raises:
        SettingError: what was asked for does not go with the places; says what to set.
    """
    asked, source = _asked(places.snapshot)
    chosen = way(places)
    if asked == "none" or state_bytes is None:
        return Shipping()
    is_streamed = chosen == "store" or (places.store is not None and state_bytes >= LARGE_LAYER_BYTES)
    kind = asked or ("s3" if is_streamed else "image")
    if kind == "s3" and places.store is None:
        raise SettingError(f"--snapshot s3: there is no store; {_REMEDY}")
    if kind == "image" and chosen == "store":
        raise SettingError("--snapshot image: the function gets no image of its own; set FAAS_IMAGE, or take s3")
    return Shipping(kind=kind, source=source, notes=_notes(kind, name, state_bytes, places))


def _notes(kind: Delivery, name: str, state_bytes: int, places: Places) -> tuple[str, ...]:
    if kind == "image" and state_bytes >= LARGE_LAYER_BYTES:
        return (
            f"the state of {name} has {state_bytes / 2**20:.0f} MiB and goes into its image, which a node pulls whole "
            "before it starts; with FAAS_STORE=s3://bucket/prefix it is streamed",
        )
    if kind == "node-cache" and places.store is None:
        return (
            f"no store is set, so nodes fetch nothing: put the snapshot of {name} into their {NODE_CACHE} yourself",
        )
    return ()


def _asked(text: str | None) -> tuple[Delivery | None, str | None]:
    if text is None:
        return None, None
    kind, colon, source = text.partition(":")
    if kind in _SOURCES and not source:
        raise SettingError(f"--snapshot {text}: name {_SOURCES[kind]}")
    for one in get_args(Delivery):
        if kind == one and bool(colon) == (one in _SOURCES):
            return one, source or None
    raise SettingError(f"--snapshot {text}: give s3, image, node-cache, pvc:NAME, oci:REFERENCE or none")
