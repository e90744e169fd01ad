"""An API server to test against, with a small Knative behind it, on a socket of the loopback interface.

What it enforces is what the real one does for the calls that `deploy.knative` makes: content types of patches;
server-side apply with field managers, conflicts and `force`; `resourceVersion` and `uid` as preconditions; 404, 409,
410, 415, 422 with their `Status`; dry runs that change nothing; generations; pages of lists; watches with bookmarks,
time limits and expiry; metadata-only answers; foreground deletion; and for a Knative Service its schema
(`tests/deploy/data`), Knative's defaults and its validation as `tests/deploy/webhook.py` has it.

What it does not do: authentication (sets of verbs stand for RBAC), admission of anything but a Knative Service, managed
fields inside objects, selectors beyond equality, protobuf, and all that a scheduler, a kubelet and a network do. That a
manifest passes here says that it follows the rules written down here; a real cluster has the last word.

`faults` holds functions that may answer a request in its place; `calls` is what was asked, in order.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import uvicorn

from . import resources
from .answers import Answer
from .controller import Controller
from .http import Receive, Scope, Send, body_of, send_json
from .stored import Document, Store

_DISCOVERED = ("/apis/serving.knative.dev/v1", "/apis/networking.internal.knative.dev/v1alpha1")


@dataclass
class Call:
    """One request as an authoriser sees it; `subresource` as in RBAC (`pods/log`)."""

    method: str
    path: str
    query: dict[str, str]
    verb: str
    resource: str
    namespace: str | None
    name: str | None
    headers: dict[str, str]
    body: Any = None


Fault = Callable[[Call], Answer | list[Document] | None]


@dataclass
class State:
    """What a test sets and looks at; changed only in the server's loop, by `ApiServer.do`."""

    store: Store = field(default_factory=Store)
    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    used: set[tuple[str, str]] = field(default_factory=set)  # the rights that were needed: verb, resource
    allowed: set[tuple[str, str]] | None = None  # None: all
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    flags: tuple[str, ...] = ()
    max_timeout_s: int = 600
    apis: tuple[str, ...] = _DISCOVERED
    bookmark_every_s: float = 60.0
    num_logs_to_cut: int = 0  # streams of logs that end early, as when a kubelet restarts
    logs: dict[str, list[str]] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)

    def need(self, verb: str, resource: str) -> None:
        """Note a right that a request needs; raise 403 where it is not given."""
        self.used.add((verb, resource))
        if (verb, resource) in self.forbidden or (self.allowed is not None and (verb, resource) not in self.allowed):
            raise Answer(403, f'{resource} is forbidden: User "u" cannot {verb} resource "{resource}"')

    def say(self, pod: str, text: str) -> None:
        """Have a pod write a line."""
        lines = self.logs.setdefault(pod, [])
        lines.append(f"2026-08-01T10:{len(lines) // 60:02d}:{len(lines) % 60:02d}.000000001Z {text}")
        self.store.wake()


class ApiServer:
    """A context: serves from `url` in a thread of its own until its end."""

    def __init__(self) -> None:
        self.state = State()
        self.controller = Controller(self.state.store, self.state.say)
        self._loop = asyncio.new_event_loop()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(
            self._app, interface="asgi3", ws="none", lifespan="off", log_level="critical", timeout_graceful_shutdown=1
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._stopping = asyncio.Event()
        self._mistakes: list[Exception] = []
        self._thread = threading.Thread(target=self._serve, name="api-server")

    def __enter__(self) -> "ApiServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(timeout=10)
        assert not self._thread.is_alive(), "the stand-in did not stop"
        if self._mistakes:
            raise self._mistakes[0]

    def do(self, change: Callable[[State], Any]) -> Any:
        """Run `change` between two requests, and return what it returns."""

        async def run() -> Any:
            return change(self.state)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(timeout=10)

    def called(self, verb: str, resource: str) -> list[Call]:
        """The requests so far with this verb, in RBAC's words, to this resource."""
        return [call for call in self.state.calls if (call.verb, call.resource) == (verb, resource)]

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._both())
        self._loop.close()

    async def _both(self) -> None:
        simulation = asyncio.create_task(self.controller.run())
        await self._server.serve(sockets=[self._socket])
        simulation.cancel()
        await asyncio.gather(simulation, return_exceptions=True)
        self._socket.close()

    def _end(self) -> None:
        self._stopping.set()
        self.state.store.wake()
        self._server.should_exit = True

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = parse(scope)
        self.state.calls.append(call)
        try:
            call.body = await body_of(receive)
            for fault in list(self.state.faults):
                if (answer := fault(call)) is None:
                    continue
                if isinstance(answer, Answer):
                    raise answer
                await resources.send_events(send, answer)
                return
            if not call.resource.startswith("/"):
                self.state.need(call.verb, call.resource)
            await resources.answer(self.state, call, send, self._stopping)
        except Answer as answer:
            await send_json(send, answer.code, answer.status)
        except Exception as failed:  # a mistake of the stand-in itself: the test is to fail by it
            self._mistakes.append(failed)
            raise


def parse(scope: Scope) -> Call:
    """A request in the words of RBAC."""
    path, method = scope["path"], scope["method"]
    query = dict(parse_qsl(scope["query_string"].decode()))
    headers = {key.decode().lower(): value.decode() for key, value in scope["headers"]}
    parts = [unquote(part) for part in path.strip("/").split("/")]
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = None
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = rest[0] if rest else path, rest[1] if len(rest) > 1 else None, rest[2:3]
    verb = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}.get(method, "get")
    if method == "GET" and rest and name is None:
        verb = "watch" if query.get("watch") == "true" else "list"
    resource = "/".join([plural, *subresource])
    return Call(method, path, query, verb, resource, namespace, name, headers)


def once(*answers: Answer | list[Document], verb: str, resource: str) -> Fault:
    """A fault that gives these answers, one after another, to requests of this kind, and then none."""
    left = list(answers)

    def fault(call: Call) -> Answer | list[Document] | None:
        if left and (call.verb, call.resource) == (verb, resource):
            return left.pop(0)
        return None

    return fault


def always(answer: Answer, *, verb: str, resource: str) -> Fault:
    """A fault that answers every request of this kind."""
    return lambda call: answer if (call.verb, call.resource) == (verb, resource) else None
