"""The hot path: one POST to an endpoint, from body to call to answer, spoken in ASGI directly."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar, Final

from starlette.types import Receive, Scope, Send

from faas import codec
from faas.engine.owned import is_large
from faas.function import Endpoint
from faas.messages import NO_HEADERS, Call, Context
from faas.runtime import Runtime
from faas.server import headers as stated
from faas.server import media, multipart, stream
from faas.server.answer import Answer, Pair
from faas.server.body import Body
from faas.server.line import Watches
from faas.server.problem import CLIENT_CLOSED, Problem
from faas.server.timing import cold_start, server_timing

logger = logging.getLogger("faas.server")

_JSON: Final = (b"content-type", media.JSON)
_BYTES: Final = (b"content-type", media.BYTES)
_WARM: Final = (b"x-cold-start", b"0")
_COLD: Final = (b"x-cold-start", b"1")
_BATCH_SIZES: Final = [(b"x-batch-size", b"%d" % size) for size in range(257)]
_STATED: Final = frozenset((stated.TIMEOUT_MS, stated.PRIORITY, stated.QUEUE_TIMEOUT_MS, stated.SEQUENCE_ID))
_RAW_KINDS: Final = (bytes, bytearray, memoryview)
_NOTHING: Final = object()
_LARGE_BYTES: Final = 1024 * 1024
"""Of a body that takes long enough to read for others to notice."""


class Asked:
    """One request: when it came, its headers, the id it goes by, its body, and whether that turned out to be large."""

    __slots__ = ("arrived_at", "body", "headers", "is_large", "request_id")

    def __init__(self, arrived_at: float, headers: dict[bytes, bytes], request_id: bytes, body: Body) -> None:
        self.arrived_at = arrived_at
        self.headers = headers
        self.request_id = request_id
        self.body = body
        self.is_large = False


class Invoke:
    """Answers the calls of one endpoint. They are made of the class `CALL`."""

    CALL: ClassVar[type[Call]] = Call

    def __init__(self, runtime: Runtime, endpoint: Endpoint, ids: stated.RequestIds, watches: Watches) -> None:
        calls = runtime.function.spec.calls
        self._runtime = runtime
        self._metrics = runtime.metrics
        self._clock = runtime.clock
        self._ids = ids
        self._watches = watches
        self._tell = self._tell_late
        self._path = endpoint.path
        self._signature = endpoint.signature
        self._raw = endpoint.signature.raw
        self._fields = endpoint.signature.fields
        self._streams = endpoint.signature.streams
        # No engine reports the batches of such an endpoint.
        on_loop = all(each.signature.kind.startswith("async") for each in endpoint.each)
        self._is_batch_of_one = on_loop and not endpoint.signature.batched
        selection = runtime.function.spec.selection
        self._wants_headers = endpoint.signature.context is not None or (
            selection is not None and selection.context is not None
        )
        self._limit = calls.max_payload_bytes
        self._timeout_s = calls.timeout_s
        self._version = (b"x-model-version", runtime.version.encode("latin-1", "replace"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as an ASGI application."""
        headers = stated.by_name(scope["headers"])
        request_id = self._ids.of(headers.get(stated.REQUEST_ID))
        asked = Asked(self._clock(), headers, request_id, Body(receive, headers, self._limit))
        call: Call | None = None
        status = CLIENT_CLOSED
        self._metrics.num_inflight += 1
        try:
            try:
                self._runtime.admit()
                call = self._call(await self._decode(asked), asked)
                wants_events = media.EVENTS in headers.get(b"accept", b"").lower()
                self._watches.add(call, scope, receive, None if wants_events else (self._tell, asked, send))
                if wants_events:
                    status = await self._stream(call, asked, send)
                    return
                kind, payload = await self._payload(call)
            except Exception as error:
                if call is not None and await self._watches.told(call):
                    status = Problem.of(error).status
                else:
                    status = await self._refuse(error, call, asked, send)
                return
            length = (b"content-length", b"%d" % len(payload))
            out = [kind, length, (stated.REQUEST_ID, request_id), *self._cost(call, asked)]
            await send({"type": "http.response.start", "status": 200, "headers": out})
            await send({"type": "http.response.body", "body": payload})
            status = 200
        finally:
            self._metrics.num_inflight -= 1
            if call is not None:
                self._watches.remove(call)
                call.leave()
            self._count(call, status, asked.arrived_at)
            if asked.is_large:
                self._let_go(call if status == 200 else None)

    def _note_large(self, asked: Asked) -> None:
        """Take in that a body takes long to read and to free."""
        from faas.large_memory import PutOff  # nothing to most functions

        asked.is_large = True
        PutOff.begin()

    def _let_go(self, call: Call | None) -> None:
        """Free what a call was made of, unless somebody else holds it; one that failed may still run."""
        from faas.large_memory import PutOff, let_go

        if call is None:
            PutOff.end()
            return
        held, call.kwargs = [call.kwargs], {}
        freed = asyncio.get_running_loop().run_in_executor(None, let_go, held)
        freed.add_done_callback(lambda _: PutOff.end())

    async def _decode(self, asked: Asked) -> dict[str, Any]:
        form = media.of(asked.headers.get(b"content-type"), self._raw is not None)
        if form.form == "multipart":
            return self._signature.convert(await multipart.read(asked.body.chunks(), form.boundary, self._fields))
        data = await asked.body.read()
        if self._raw is not None:
            if len(data) > _LARGE_BYTES:
                self._note_large(asked)
            return {self._raw.name: data}
        if form.charset is not None:
            data = media.to_utf8(data, form.charset)
        if len(data) > _LARGE_BYTES:
            from faas import large_body  # nothing to most functions

            self._note_large(asked)
            held = [data]
            del data
            return await asyncio.to_thread(large_body.decode, self._signature, held)
        return self._signature.decode(data)

    def _call(self, kwargs: dict[str, Any], asked: Asked) -> Call:
        headers = asked.headers
        context = Context(
            asked.request_id.decode(),
            stated.Headers(headers) if self._wants_headers else NO_HEADERS,
            deadline=asked.arrived_at + self._timeout_s,
            model_version=self._runtime.version,
            clock=self._clock,
        )
        call = self.CALL(kwargs, context)
        if not _STATED.isdisjoint(headers):
            context.deadline = asked.arrived_at + stated.timeout_s(headers, self._timeout_s)
            context.sequence = stated.sequence(headers)
            call.priority = stated.priority(headers)
            call.queue_timeout_s = stated.queue_timeout_s(headers)
        return call

    async def _payload(self, call: Call) -> tuple[Pair, bytes]:
        """Return the answer's content type and body."""
        engine = self._runtime.engines[self._path]
        if self._streams:
            engine.submit(call)
            value: Any = [event async for event in call.events()]
        else:
            value = await engine.answer(call)
            if isinstance(value, _RAW_KINDS):
                return _BYTES, bytes(value)
        if not is_large(value):
            return _JSON, codec.encode(value)
        from faas import large_answer  # nothing to most functions

        call.forget()
        held = [value]
        del value
        return _JSON, await asyncio.to_thread(large_answer.encode, held)

    async def _stream(self, call: Call, asked: Asked, send: Send) -> int:
        """Send the events as they come. Until there is one, an error has a status of its own. Returns the status."""
        self._runtime.engines[self._path].submit(call)
        events = call.events()
        first = await anext(events, _NOTHING)
        held = b"" if first is _NOTHING else stream.event(first)
        out = [*stream.HEADERS, (stated.REQUEST_ID, asked.request_id), *self._cost(call, asked)]
        await send({"type": "http.response.start", "status": 200, "headers": out})

        def failed(error: Exception) -> tuple[int, bytes]:
            problem = self._problem(error, asked)
            return problem.status, problem.body(call.context.request_id)

        return await stream.pump(send, call, held, events, failed)

    async def _tell_late(self, call: Call, asked: Asked, send: Send) -> None:
        """Tell a caller what a call failed with whose own task is still held up in the handler."""
        try:
            await call.result()
        except Exception as error:
            await self._refuse(error, call, asked, send)

    async def _refuse(self, error: Exception, call: Call | None, asked: Asked, send: Send) -> int:
        problem = self._problem(error, asked)
        await Answer.telling(problem, asked.request_id, *self._cost(call, asked)).send(send, asked.body)
        return problem.status

    def _problem(self, error: Exception, asked: Asked) -> Problem:
        problem = Problem.of(error, debug=self._runtime.debug)
        if problem.is_servers:
            logger.error("request %s failed", asked.request_id.decode(), exc_info=error)
        elif problem.status == CLIENT_CLOSED:
            logger.info("request %s: 499, the caller left", asked.request_id.decode())
        error.__traceback__ = None  # with all that it holds: of an object that is raised for each call it would grow
        return problem

    def _cost(self, call: Call | None, asked: Asked) -> list[Pair]:
        """Return the headers that say who answered, and what it cost where anything was computed."""
        said = [(b"x-instance-id", self._runtime.instance_id.encode("latin-1", "replace")), self._version]
        if call is not None and call.notes is not None:
            said += stated.noted(call.notes)
        if call is None or not call.started_at:
            said.append(_WARM)
            return said
        timing = server_timing(call)
        if asked.headers.get(stated.COLD) == b"1" or call.queued_at <= self._runtime.cold_until:
            self._runtime.answered_cold()
            said.append(_COLD)
            timing += cold_start(self._runtime.phases, stated.activate_ms(asked.headers))
        else:
            said.append(_WARM)
        size = call.batch_size
        said.append(_BATCH_SIZES[size] if size < len(_BATCH_SIZES) else (b"x-batch-size", b"%d" % size))
        said.append((b"server-timing", timing))
        return said

    def _count(self, call: Call | None, status: int, arrived_at: float) -> None:
        now = self._clock()
        if call is not None and status == 200:
            self._metrics.answered(call, arrived_at, now)
            if self._is_batch_of_one and call.started_at:
                self._metrics.batch_size.observe(1)
            self._runtime.answered()
        else:
            self._metrics.failed(status, arrived_at, now)
