"""An image from a base, layers and changes of its configuration: documents in, documents out. Pure.

The result is in the base's form (OCI or Docker). It depends on what goes into it and on nothing else: there is no time
in it but the base's and one constant, so that what has not changed has the digest that it had.
"""

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from deploy.image.layer import TIME_S, Layer
from deploy.image.manifest import LAYER_OF, OCI_CONFIG, OCI_MANIFEST, Descriptor, Image, Manifest, Platform
from deploy.image.reference import digest_of

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CREATED = datetime.datetime.fromtimestamp(TIME_S, datetime.UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What to change in a base's configuration; None and empty leave it as it is.

    `entrypoint` and `command` are words, started without a shell; a new entrypoint without a command drops the base's
    command, which was for another. `search` puts folders before a variable's that has a list of them (`PATH`).
    """

    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    search: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    workdir: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()

    @property
    def is_none(self) -> bool:
        """Whether nothing is to change."""
        return not any(getattr(self, one.name) not in (None, (), {}) for one in fields(self))


@dataclass(frozen=True)
class Composed:
    """An image to be pushed. `made` has, by digest, the blobs that are made here and not in the base's registry."""

    image: Image
    made: Mapping[str, Path | bytes]


def scratch(platform: Platform) -> Image:
    """An image of nothing, to build on where there is no base."""
    machine = {"os": platform.os, "architecture": platform.architecture}
    config = {
        **machine,
        **({"variant": platform.variant} if platform.variant else {}),
        "config": {"Env": [f"PATH={_PATH}"]},
        "rootfs": {"type": "layers", "diff_ids": []},
        "history": [],
    }
    content = _encoded(config)
    described = Descriptor(OCI_CONFIG, digest_of(content), len(content))
    document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": described.document(), "layers": []}
    return _image(document, OCI_MANIFEST, content)


def compose(base: Image, layers: Sequence[Layer], changes: Changes) -> Composed:
    """`base` with `layers` on top of its own and its configuration changed; with neither, the very base."""
    if not layers and changes.is_none:
        return Composed(base, {})
    media_type = base.manifest.media_type
    described = [Descriptor(LAYER_OF[media_type], layer.digest, layer.size_bytes) for layer in layers]
    content = _encoded(_config(base, layers, changes))
    config = Descriptor(base.manifest.config.media_type, digest_of(content), len(content))
    document = {
        **base.manifest.document,
        "config": config.document(),
        "layers": [*base.manifest.document["layers"], *(one.document() for one in described)],
    }
    made: dict[str, Path | bytes] = {layer.digest: layer.path for layer in layers}
    return Composed(_image(document, media_type, content), {**made, config.digest: content})


def _config(base: Image, layers: Sequence[Layer], changes: Changes) -> dict[str, Any]:
    settings = dict(base.settings)
    env = _environment(base.environment, changes)
    if changes.env or changes.search:
        settings["Env"] = [f"{name}={value}" for name, value in env.items()]
    if changes.entrypoint is not None:
        settings["Entrypoint"] = list(changes.entrypoint)
        settings.pop("Cmd", None)
    if changes.command is not None:
        settings["Cmd"] = list(changes.command)
    given = {"User": changes.user, "WorkingDir": changes.workdir}
    settings |= {name: value for name, value in given.items() if value is not None}
    if changes.labels:
        settings["Labels"] = {**base.labels, **changes.labels}
    if changes.ports:
        settings["ExposedPorts"] = {
            **(settings.get("ExposedPorts") or {}),
            **{f"{one}/tcp": {} for one in changes.ports},
        }
    history: list[dict[str, Any]] = [{"created": _CREATED, "created_by": layer.created_by} for layer in layers]
    if not changes.is_none:
        history.append({"created": _CREATED, "created_by": "faas: configuration", "empty_layer": True})
    return {
        **base.config,
        "config": settings,
        "rootfs": {
            "type": "layers",
            "diff_ids": [*base.config["rootfs"]["diff_ids"], *(layer.diff_id for layer in layers)],
        },
        "history": [*(base.config.get("history") or ()), *history],
    }


def _environment(env: Mapping[str, str], changes: Changes) -> dict[str, str]:
    made = {**env, **changes.env}
    for name, folders in changes.search.items():
        before = made.get(name, _PATH if name == "PATH" else "")
        made[name] = f"{folders}:{before}" if before else folders
    return made


def _image(document: Mapping[str, Any], media_type: str, config: bytes) -> Image:
    where = "the image that is being built"
    return Image.of(Manifest.of(_encoded(document), media_type, where), config, where)


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
