"""Functions called where they are served, by users' programs and by other functions.

There is one implementation, asynchronous. The synchronous doors run it on a loop in a thread of its own, the
asynchronous ones on the caller's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from faas import address, calling, settings
from faas.background import background
from faas.calling import Request
from faas.errors import BadInput, RemoteError
from faas.function import Endpoint, Function

_MAX_CONCURRENCY: Final = 100
_SLACK_S: Final = 1.0  # the server's own 504, which says why, shall come before the caller's patience ends
_END: Final = object()


class Spawned:
    """A call that was started and is not waited for. It is given up when this process ends."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def get(self, timeout_s: float | None = None) -> Any:
        """Wait for the answer; a stream's is a list of its events.

        Raises:
            TimeoutError: it is not there after `timeout_s` seconds.
            concurrent.futures.CancelledError: the call was cancelled.
            FaasError: what `Function.remote` raises.
        """
        return self._future.result(timeout_s)

    def cancel(self) -> bool:
        """Give the call up; the function is told that its caller has left. Returns False where it had ended."""
        return self._future.cancel()

    def done(self) -> bool:
        """Tell whether the call has ended."""
        return self._future.done()


class EndpointClient:
    """The remote doors of one endpoint of a function. Answers are read as the types of its signature."""

    def __init__(self, function: Function, endpoint: Endpoint) -> None:
        self._name = function.name
        self._path = endpoint.path
        self._signature = endpoint.signature
        self._timeout_s = function.spec.calls.timeout_s
        most = function.limits.max_inputs * function.spec.scaling.max_instances
        self._concurrency = min(most, _MAX_CONCURRENCY)

    def remote(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call and wait for the answer; a stream gives an iterator."""
        request = self._request(args, kwargs)
        return self._iterate(request) if self._signature.streams else background().run(self._answer(request))

    async def aremote(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Call and wait for the answer; a stream gives an asynchronous iterator."""
        request = self._request(args, kwargs)
        return self._events(request) if self._signature.streams else await self._answer(request)

    def spawn(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Spawned:
        """Call and return at once."""
        return Spawned(background().submit(self._whole(self._request(args, kwargs))))

    def map(self, inputs: Iterable[Any]) -> list[Any]:
        """Call for each of `inputs`; see `amap`."""
        held = list(inputs)  # here: inputs that come from calls themselves would block the loop that all calls run on
        return background().run(self.amap(held))

    async def amap(self, inputs: Iterable[Any]) -> list[Any]:
        """Call for each of `inputs`, as many at a time as the function's instances hold; answers in their order.

        The first error cancels the calls in flight, and is raised. A stream's answer is a list of its events.
        """
        waiting = enumerate(inputs)
        answers: dict[int, Any] = {}

        async def work() -> None:
            for index, value in waiting:
                answers[index] = await self._whole(self._request((value,), {}))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._concurrency):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [answers[index] for index in range(len(answers))]

    def _request(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Request:
        signature = self._signature
        return Request(
            name=self._name,
            address=address.find(self._name, settings.read()),
            body=signature.body_of(signature.bind(args, kwargs)),
            timeout_s=self._timeout_s,
            path=self._path,
            content_type=calling.JSON if signature.raw is None else calling.BYTES,
            accept=calling.EVENTS if signature.streams else calling.JSON,
        )

    async def _whole(self, request: Request) -> Any:
        """Return the answer; the whole of a stream as a list."""
        if self._signature.streams:
            return [event async for event in self._events(request)]
        return await self._answer(request)

    async def _answer(self, request: Request) -> Any:
        try:
            async with asyncio.timeout(request.timeout_s + _SLACK_S), calling.call(request) as response:
                content = await response.aread()
        except TimeoutError:
            raise self._too_late() from None
        return content if calling.media_type(response) == calling.BYTES else self._read(content)

    async def _events(self, request: Request) -> AsyncGenerator[Any, None]:
        """Yield the events. Time runs only while they are waited for: what is done between two is the caller's."""
        deadline = asyncio.get_running_loop().time() + request.timeout_s + _SLACK_S
        async with contextlib.aclosing(_received(request)) as received:
            while True:
                try:
                    async with asyncio.timeout_at(deadline):
                        event = await anext(received, None)
                except TimeoutError:
                    raise self._too_late() from None
                if event is None:
                    return
                yield self._read(event)

    def _iterate(self, request: Request) -> Iterator[Any]:
        loop, events = background(), self._events(request)
        try:
            while (event := loop.run(_next_of(events))) is not _END:
                yield event
        finally:
            if loop.runs:
                loop.run(_close(events))

    def _read(self, content: bytes) -> Any:
        try:
            return self._signature.answer(content)
        except BadInput as error:
            raise RemoteError(f"{self._name} answered what its signature does not say: {error}", 200) from error

    def _too_late(self) -> RemoteError:
        return RemoteError(f"{self._name} gave no answer within {self._timeout_s:g} s", 504)


async def _received(request: Request) -> AsyncGenerator[bytes, None]:
    async with calling.call(request) as response:
        async for event in calling.events(request.name, response):
            yield event


async def _next_of(events: AsyncGenerator[Any, None]) -> Any:
    return await anext(events, _END)


async def _close(events: AsyncGenerator[Any, None]) -> None:
    await events.aclose()
