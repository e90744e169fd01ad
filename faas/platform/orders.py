"""What a platform is told to deploy, and what came of it: JSON of the control interface. Light, for commands too."""

from __future__ import annotations

from typing import Any

import msgspec


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be deployed: the functions of `target`, as the platform's machine knows it.

    `takes_traffic` False keeps all calls where they are; `tag` leads to the new revision.
    """

    target: str
    takes_traffic: bool = True
    tag: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What came of an order: the functions that are deployed, and by name why others are not.

    `error` is the name of the error's class where nothing could be done at all, for the reason `detail`.
    """

    functions: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    error: str | None = None
    detail: str = ""
