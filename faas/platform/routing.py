"""The seam between the activator and whoever knows the functions."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from faas.platform.breaker import Capacity
from faas.platform.wire import LocalAnswer

FEEDBACK: Final = b"/feedback"
"""The path of what an instance learns of its own answers: it goes to the one that `X-Instance-Id` names."""


class Target(NamedTuple):
    """Where a request goes: to an instance of `capacity`, as `path` (no query; that follows as the client sent it).

    Another local server, such as the dashboard, is a target too: a capacity that has that server as its one endpoint.
    """

    capacity: Capacity
    path: bytes


class Sought(NamedTuple):
    """Nowhere yet: the function may be in a place that can be looked at.

    `find` begins to, and returns what is done when to ask again: with why the function cannot be had, or with None. It
    returns None itself where nobody is to look now. `otherwise` is the answer where it is not found.
    """

    find: Callable[[], asyncio.Future[str | None] | None]
    otherwise: LocalAnswer


class Router(Protocol):
    """Decides where a request goes, at once; called on the event loop for every request."""

    def route(self, host: bytes, path: bytes, method: bytes, tag: bytes = b"") -> Target | LocalAnswer | Sought:
        """`host` is the Host header as sent, port and all; `path` is still percent-encoded and without the query.

        `tag` is that of the revision that a header asks for, empty where none does.
        """
