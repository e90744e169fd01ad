"""How a function is called from Python: in this process, and where it is served."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faas.function import Endpoint, Function


class Doors:
    """The calls that one endpoint of a function takes. A function itself has those of its main endpoint."""

    @property
    def _led_to(self) -> tuple[Function, Endpoint]:
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it in this process; the same as `local`."""
        return self.local(*args, **kwargs)

    def local(self, *args: Any, **kwargs: Any) -> Any:
        """Call it in this process with one item; `setup()` runs once, for all endpoints.

        An `async def` gives a coroutine, a stream an iterator.
        """
        function, endpoint = self._led_to
        return function.in_process.call(endpoint, args, kwargs)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call it where it is served, and wait for the answer; a stream gives an iterator.

        Raises:
            RemoteError: it answered with an error.
            PlatformError: it is served nowhere that can be found.
        """
        return self._client().remote(args, kwargs)

    async def aremote(self, *args: Any, **kwargs: Any) -> Any:
        """Call it where it is served. Raises what `remote` raises."""
        return await self._client().aremote(args, kwargs)

    def spawn(self, *args: Any, **kwargs: Any) -> Any:
        """Start a remote call and return at once; `.get(timeout_s)` waits for its answer, `.cancel()` gives it up."""
        return self._client().spawn(args, kwargs)

    def map(self, inputs: Iterable[Any]) -> list[Any]:
        """Call it remotely for each of `inputs`, many at a time; the answers are in their order."""
        answers: list[Any] = self._client().map(inputs)
        return answers

    async def amap(self, inputs: Iterable[Any]) -> list[Any]:
        """Call it remotely for each of `inputs`, many at a time; the answers are in their order."""
        answers: list[Any] = await self._client().amap(inputs)
        return answers

    def _client(self) -> Any:
        from faas.client import EndpointClient  # httpx is slow to import, and a server has no use for it

        return EndpointClient(*self._led_to)


class BoundEndpoint(Doors):
    """An endpoint of a class, by its method's name: `Files.labelled.remote(...)`."""

    def __init__(self, function: Function, endpoint: Endpoint) -> None:
        self._function = function
        self._endpoint = endpoint
        self.__doc__ = getattr(function.user, endpoint.method).__doc__

    def __repr__(self) -> str:
        return f"<endpoint {self._endpoint.path} of {self._function!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._function, self._endpoint.method)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it in this process; with a handler of one's own as the first argument, the plain method."""
        if args and isinstance(args[0], self._function.user):
            return getattr(self._function.user, self._endpoint.method)(*args, **kwargs)
        return self.local(*args, **kwargs)

    @property
    def _led_to(self) -> tuple[Function, Endpoint]:
        return self._function, self._endpoint
