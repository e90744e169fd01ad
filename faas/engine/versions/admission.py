"""Whether what is to be loaded fits beside what is loaded, by estimates. Pure."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """What becomes of a request for room."""

    GRANTED = "granted"
    WAIT = "something under way may make room"
    EXHAUSTED = "there is no room, and none will be made by what is under way"


class Room:
    """The bytes that versions may take together; without a capacity there is always room."""

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self._reserved: dict[int, int] = {}

    @property
    def reserved_bytes(self) -> int:
        """What has been given."""
        return sum(self._reserved.values())

    def reserve(self, number: int, num_bytes: int, *, under_way: bool) -> Verdict:
        """Ask for room for a version. `under_way` says that other versions are being loaded or unloaded."""
        left = None if self.capacity_bytes is None else self.capacity_bytes - self.reserved_bytes
        if left is None or num_bytes <= left:
            self._reserved[number] = num_bytes
            return Verdict.GRANTED
        if under_way and self.capacity_bytes is not None and num_bytes <= self.capacity_bytes:
            return Verdict.WAIT
        return Verdict.EXHAUSTED

    def release(self, number: int) -> None:
        """Take back what a version was given, if anything was."""
        self._reserved.pop(number, None)
