"""What `faas.prepare` has done by the processes of `faas.preparing`, and what they answer."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from faas import tasks
from faas.description import Description
from faas.preparation import Origin

Verb = Literal["make", "check"]


class Task(tasks.Task, frozen=True, kw_only=True):
    """What to do: "make" a function ready and freeze its state into `folder`, or "check" the snapshot there.

    `function` None is the first of the target. `export` is the form that is asked for where the function itself asks
    for none; what is exported is frozen into a folder of its own, `exported`. `later` are the packages that the
    snapshot to check should do without.
    """

    verb: Verb
    target: str
    folder: str
    exported: str = ""
    function: str | None = None
    export: str | None = None
    later: tuple[str, ...] = ()


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """A state that was exported and frozen.

    `later` are the top-level packages that it does without: those of the modules' own classes, and torch unless the
    form needs it.
    """

    digest: str
    state_bytes: int
    later: tuple[str, ...]


class Made(msgspec.Struct, frozen=True, kw_only=True, tag="made"):
    """The outcome of "make". `answers` are what the example inputs gave, as JSON texts; None where there are none.

    `digest` is the snapshot's identity; None where nothing was frozen, for `reason`, which may not hold the next time
    where it `may_pass`. `export` is the form that was to be had; `exported` is None where there is none, for
    `export_reason`.
    """

    description: Description
    origin: Origin
    siblings: tuple[str, ...]
    imports: tuple[str, ...]
    answers: list[str] | None
    digest: str | None
    reason: str | None
    may_pass: bool = False
    state_bytes: int
    setup_s: float
    globals: tuple[str, ...] = ()
    export: str | None = None
    exported: Exported | None = None
    export_reason: str | None = None


class Checked(msgspec.Struct, frozen=True, kw_only=True, tag="checked"):
    """The outcome of "check".

    `late` are the packages that were imported after all, and the lines that did it; `rehearsable` says that the answers
    left nothing that a fork could not share.
    """

    answers: list[str] | None
    thaw_s: float
    imports: tuple[str, ...]
    late: dict[str, str]
    rehearsable: bool


class Needs(msgspec.Struct, frozen=True, kw_only=True, tag="needs"):
    """The outcome of "make" where this interpreter does not do: it lacks some of `requirements`.

    They are those of `function`, or of all functions of a file that cannot be loaded here.
    """

    requirements: tuple[str, ...]
    function: str | None = None
    siblings: tuple[str, ...] = ()


MAKING: Final[msgspec.json.Decoder[tasks.Message | Made | Needs]] = msgspec.json.Decoder(tasks.Message | Made | Needs)
"""Reads the reports of a process that makes a function ready."""
CHECKING: Final[msgspec.json.Decoder[tasks.Message | Checked]] = msgspec.json.Decoder(tasks.Message | Checked)
"""Reads the reports of a process that checks a snapshot."""
