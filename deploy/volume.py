"""How a snapshot reaches an instance."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from deploy import checks, quantity
from deploy.errors import InvalidSpec

VolumeKind = Literal["hostPath", "pvc", "image", "emptyDir"]


@dataclass(frozen=True, kw_only=True)
class SnapshotVolume:
    """Where an instance finds its snapshot: the folder `mount_path`, which it also gets as `FAAS_SNAPSHOT_DIR`.

    | kind       | `source`                       | what is mounted                                             |
    |------------|--------------------------------|-------------------------------------------------------------|
    | `hostPath` | a folder of the node           | the node's cache, read-only                                 |
    | `pvc`      | a claim in the same namespace  | the claim, read-only                                        |
    | `image`    | the reference of an OCI image  | its files, read-only                                        |
    | `emptyDir` | where to fetch from (a URI)    | an empty folder; the process fetches, from the URI it gets  |
    |            |                                | as `FAAS_SNAPSHOT_URI`                                      |

    `sub_path` is a folder inside a claim or image, `size_limit` a quantity that bounds an `emptyDir`.
    """

    kind: VolumeKind
    source: str
    mount_path: str = "/snapshot"
    sub_path: str | None = None
    size_limit: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(VolumeKind):
            raise InvalidSpec(
                "snapshot.kind", self.kind, "is unknown", f"give one of {', '.join(get_args(VolumeKind))}"
            )
        self._check_source()
        checks.mount_path("snapshot.mount_path", self.mount_path)
        if self.sub_path is not None:
            if self.kind not in ("pvc", "image"):
                raise InvalidSpec(
                    "snapshot.sub_path", self.sub_path, f"does not go with {self.kind}", "put it in source"
                )
            checks.absolute_path("snapshot.sub_path", f"/{self.sub_path}")
        if self.size_limit is not None:
            if self.kind != "emptyDir":
                raise InvalidSpec(
                    "snapshot.size_limit", self.size_limit, f"does not go with {self.kind}", "leave it out"
                )
            quantity.memory("snapshot.size_limit", self.size_limit)

    def _check_source(self) -> None:
        if self.kind == "hostPath":
            checks.absolute_path("snapshot.source", self.source)
        elif self.kind == "pvc":
            checks.object_name("snapshot.source", self.source)
        elif self.kind == "image":
            checks.image("snapshot.source", self.source)
        elif not re.match(r"[a-z][a-z0-9+.-]*://[^/]", self.source):
            raise InvalidSpec("snapshot.source", self.source, "is not a URI", "write it as s3://bucket/prefix")
