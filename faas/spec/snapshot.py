"""What is kept of `setup()`, and how it comes into memory."""

from __future__ import annotations

from typing import Literal, get_args

from faas.errors import SettingError
from faas.spec.checks import choice, policy

LoadMode = Literal["auto", "map", "read", "direct"]
LOAD_MODES: tuple[LoadMode, ...] = get_args(LoadMode)


@policy
class Snapshot:
    """What is kept of `setup()`: "state" the whole handler, "weights" its tensors, "off" nothing; and where.

    `uri`, as s3://bucket/prefix/NAME, is the snapshot of instances that have none at hand.

    With "weights" each instance runs `setup()`, and its tensors are then held once for all instances.

    `export` "onnx" keeps torch modules in a form that is run without torch; "aoti" keeps them compiled.
    """

    mode: Literal["state", "weights", "off"] = "state"
    uri: str | None = None
    export: Literal["onnx", "aoti"] | None = None

    def __post_init__(self) -> None:
        choice(self, "mode", ("state", "weights", "off"))
        if self.uri is not None and not self.uri.startswith("s3://"):
            raise SettingError(f"Snapshot(uri={self.uri!r}): must be s3://bucket/prefix/NAME")
        if self.export is not None:
            choice(self, "export", ("onnx", "aoti"))
            if self.mode == "weights":
                raise SettingError(
                    f'Snapshot(mode="weights", export={self.export!r}): setup() makes modules anew in each instance; '
                    'take mode="state"'
                )
