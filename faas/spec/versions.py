"""Which versions of a function's state an instance holds."""

from __future__ import annotations

from typing import Literal, get_args

from faas.errors import SettingError
from faas.quantities import parse_bytes
from faas.spec.checks import choice, flag, is_whole, number, policy, whole

VersionPolicy = Literal["latest", "all", "specific"]
VERSION_POLICIES: tuple[VersionPolicy, ...] = get_args(VersionPolicy)
Transition = Literal["availability", "resource"]
TRANSITIONS: tuple[Transition, ...] = get_args(Transition)
VersionMode = Literal["poll", "explicit"]
VERSION_MODES: tuple[VersionMode, ...] = get_args(VersionMode)


@policy
class Versions:
    """Which numbered versions of its state a function is served with, and how one takes another's place.

    `policy` "latest" holds the `num` highest, "all" all, "specific" those in `versions`. `source` is where they are: a
    folder, or s3://bucket/prefix/NAME; None is the function's own in the store of snapshots.
    With `mode` "poll" it is looked at every `poll_s` seconds; 0 is once, when an instance starts. With "explicit", or
    with a negative `poll_s`, nothing is looked at or held until that is asked for.
    `transition` "availability" loads the new before it unloads the old, "resource" the other way round. `max_bytes`, a
    Kubernetes quantity, is what the files of all that is held may take together. A version that cannot be loaded is
    tried `load_retries` more times, `retry_s` seconds apart (negative: at once). `keep_last` holds on to the last
    version when its source has none any more.
    """

    policy: VersionPolicy = "latest"
    num: int = 1
    versions: tuple[int, ...] = ()
    source: str | None = None
    poll_s: float = 1.0
    mode: VersionMode = "poll"
    transition: Transition = "availability"
    max_bytes: str | None = None
    load_retries: int = 5
    retry_s: float = 60.0
    keep_last: bool = False

    def __post_init__(self) -> None:
        choice(self, "policy", VERSION_POLICIES)
        choice(self, "mode", VERSION_MODES)
        choice(self, "transition", TRANSITIONS)
        whole(self, "num", 0)
        whole(self, "load_retries", 0)
        number(self, "poll_s", float("-inf"))
        number(self, "retry_s", float("-inf"))
        flag(self, "keep_last")
        if self.max_bytes is not None:
            parse_bytes(self.max_bytes, "Versions.max_bytes")
        self._check_versions()
        if self.source is not None and not _is_place(self.source):
            raise SettingError(f"Versions(source={self.source!r}): write a folder, or s3://bucket/prefix/NAME")

    def _check_versions(self) -> None:
        if isinstance(self.versions, str) or not isinstance(self.versions, list | tuple | set):
            raise SettingError(f"Versions(versions={self.versions!r}): must be a list of numbers")
        if not all(is_whole(one, 0) for one in self.versions):
            raise SettingError(f"Versions(versions={self.versions!r}): a version is a whole number of at least 0")
        if self.versions and self.policy != "specific":
            raise SettingError(
                f'Versions(policy={self.policy!r}, versions={self.versions!r}): they count with policy="specific" alone'
            )
        object.__setattr__(self, "versions", tuple(sorted(set(self.versions))))

    @property
    def capacity_bytes(self) -> int | None:
        """What the files of all that is held may take, in bytes; None: no limit."""
        return None if self.max_bytes is None else parse_bytes(self.max_bytes, "Versions.max_bytes")


def _is_place(source: object) -> bool:
    """Tell whether something may be a folder's path, or an address in S3; other addresses are neither."""
    return isinstance(source, str) and bool(source.strip()) and ("://" not in source or source.startswith("s3://"))
