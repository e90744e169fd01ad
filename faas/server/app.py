"""One instance as an ASGI application: its endpoints first, then what every instance has, each at one exact path."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Receive, Scope, Send

from faas.errors import SettingError
from faas.runtime import Runtime
from faas.server import docs, page, probes
from faas.server.answer import Answer
from faas.server.body import Body
from faas.server.headers import REQUEST_ID, RequestIds
from faas.server.invoke import Invoke
from faas.server.line import KEY, Line, Watches
from faas.server.problem import Problem

if TYPE_CHECKING:
    from faas.server.admin import Admin

Fail = Callable[[Exception, Scope, Line], Awaitable[None]]

logger = logging.getLogger(__name__)


def build(runtime: Runtime, admin: Admin | None = None) -> ASGIApp:
    """Return the application of an instance. It serves from the start; until the instance is ready it says so.

    `admin` lets through who may change the versions that it holds; None lets nobody.

    The endpoint at `/` is at `/predict` too, where that is free; all is below `/f/NAME` as well, as on a platform.
    The function's middleware stands around the endpoints alone: the probes do not depend on it.

    Raises:
        SettingError: an entry of `middleware` is neither an ASGI class nor a pair of one and its keywords.
    """
    ids, watches = RequestIds(), Watches(runtime.clock)
    kind = Invoke if runtime.versions is None else _versioned()
    posts: dict[str, ASGIApp] = {e.path: kind(runtime, e, ids, watches) for e in runtime.function.endpoints}
    if "/" in posts:
        posts.setdefault("/predict", posts["/"])
    if runtime.learner is not None:
        from faas.server.feedback import TakeFeedback  # nothing to a function that does not learn

        posts["/feedback"] = TakeFeedback(runtime.learner, ids)
    others = probes.Other(("POST", "OPTIONS"), ids)
    openapi = cache(partial(docs.openapi, runtime.function, runtime.version))
    pages = probes.pages(runtime, ids, openapi, page.PAGE) | dict.fromkeys(posts, others)
    router = _router(pages, _others(runtime, admin, probes.Other((), ids)))
    app, prefix = _plain(posts, router), f"/f/{runtime.function.name}"
    if not runtime.function.spec.middleware:
        return _below(prefix, app)
    for entry in reversed(runtime.function.spec.middleware):
        app = _around(entry, app)

    async def fail(error: Exception, scope: Scope, line: Line) -> None:
        logger.error("the middleware failed", exc_info=error)
        headers = dict(scope["headers"])
        body = Body(line.receive, headers, 0)
        body.complete = line.complete
        problem = Problem.of(error, debug=runtime.debug)
        await Answer.telling(problem, ids.of(headers.get(REQUEST_ID))).send(line.send, body)

    return _below(prefix, _wrapped(app, posts, router, fail))


def _versioned() -> type[Invoke]:
    from faas.server.versioned_invoke import VersionedInvoke  # nothing to a function without versions

    return VersionedInvoke


def _others(runtime: Runtime, admin: Admin | None, nothing: ASGIApp) -> ASGIApp:
    """Return what answers at paths that are no page's."""
    if runtime.versions is None:
        return nothing
    from faas.server.admin import Admin  # nothing to a function without versions
    from faas.server.repository import Repository

    return Repository(runtime.versions, admin or Admin("closed"), nothing)


# What only finds who answers is no coroutine, so that a call pays for none of it while it waits.


def _router(pages: Mapping[str, ASGIApp], nothing: ASGIApp) -> ASGIApp:
    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return pages.get(scope.get("path", ""), nothing)(scope, receive, send)

    return app


def _below(prefix: str, inner: ASGIApp) -> ASGIApp:
    """Serve what is at a path at the same path below `prefix`, too."""

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http" and scope["path"].startswith(prefix):
            rest = scope["path"][len(prefix) :]
            if rest[:1] in ("", "/"):
                scope = {**scope, "path": rest or "/"}
        return inner(scope, receive, send)

    return app


def _plain(posts: Mapping[str, ASGIApp], router: ASGIApp) -> ASGIApp:
    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http" and scope["method"] == "POST":
            post = posts.get(scope["path"])
            if post is not None:
                return post(scope, receive, send)
        return router(scope, receive, send)

    return app


def _wrapped(inner: ASGIApp, paths: Container[str], router: ASGIApp, fail: Fail) -> ASGIApp:
    """Send what is for `paths` through `inner`, the user's middleware, with a line to the caller that leads past it.

    What it raises before an answer has begun is answered by `fail`.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in paths:
            await router(scope, receive, send)
            return
        line = Line(receive, send)
        scope[KEY] = line
        try:
            await inner(scope, line.receive, line.send)
        except Exception as error:
            if line.answered:
                raise
            await fail(error, scope, line)

    return app


def _around(entry: Any, inner: ASGIApp) -> ASGIApp:
    cls, *rest = entry if isinstance(entry, tuple | list) else (entry,)
    keywords = rest[0] if rest else {}
    if not callable(cls) or len(rest) > 1 or not isinstance(keywords, Mapping):
        raise SettingError(f"middleware={entry!r}: must be an ASGI class, or a pair of one and a dict of its keywords")
    made: ASGIApp = cls(inner, **keywords)
    return made
