"""The decorator, and the object that a decorated name becomes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, overload

import msgspec
from msgspec.structs import replace

from faas import cacheable, names, variants
from faas.doors import BoundEndpoint, Doors
from faas.errors import SettingError
from faas.schema import Signature
from faas.spec import (
    Batching,
    Cache,
    Calls,
    FunctionSpec,
    Resources,
    Scaling,
    Selection,
    Snapshot,
    check_methods,
    refuse_unknown,
)
from faas.variants import PREDICT, Variant

if TYPE_CHECKING:
    from faas.local import Local

RESERVED_PATHS: Final = (
    *("/livez", "/readyz", "/healthz", "/metrics"),
    *("/openapi.json", "/docs", "/feedback", "/v1", "/v2"),
)

_SETTINGS: Final = [f.name for f in FunctionSpec.__dataclass_fields__.values()]
_POLICIES: Final[tuple[Any, ...]] = (Resources, Batching, Scaling, Calls, Cache, Selection)
_MARK: Final = "__faas_endpoint__"
_HOOKS: Final = ("setup", "teardown", "after_thaw")


class Endpoint(msgspec.Struct, frozen=True):
    """One public way into a handler: the path below the function, the method that answers, its schema.

    Where there are `variants`, the best first, one of these methods answers, and `method` is the best one's.
    """

    path: str
    method: str
    signature: Signature
    variants: tuple[Variant, ...] = ()

    @property
    def each(self) -> tuple[Endpoint, ...]:
        """The endpoint as each of its variants would have it; the endpoint itself where it has none."""
        return tuple(self._as(held) for held in self.variants) or (self,)

    def _as(self, held: Variant) -> Endpoint:
        return replace(self, method=held.name, signature=replace(self.signature, kind=held.kind), variants=())


class Limits(msgspec.Struct, frozen=True):
    """How many calls an instance aims at, may hold, and may keep waiting."""

    target_inputs: int
    max_inputs: int
    max_queue: int


class Function(Doors):
    """What a decorated function or class becomes: callable here, remotely, and by whatever serves it.

    `user` is the decorated object itself. The methods that are endpoints of a class are to be called as the function
    is; other attributes that are not ours are looked up on it.
    """

    def __init__(self, user: Any, spec: FunctionSpec, endpoints: tuple[Endpoint, ...]) -> None:
        self.user = user
        self.spec = spec
        self.endpoints = endpoints
        self._local: Local | None = None
        for name in ("__module__", "__qualname__", "__doc__"):
            setattr(self, name, getattr(user, name, None))

    def __repr__(self) -> str:
        return f"<faas function {self.name!r} ({self.__module__}.{self.__qualname__})>"

    def __getattr__(self, name: str) -> Any:
        if name in ("user", "endpoints"):  # not made yet: while it is being unpickled
            raise AttributeError(name)
        found = next((e for e in self.endpoints if e.method == name and not e.variants), None)
        return BoundEndpoint(self, found) if found is not None and self.is_class else getattr(self.user, name)

    @property
    def name(self) -> str:
        """The function's name, a DNS label."""
        return self.spec.name

    @property
    def main(self) -> Endpoint:
        """The endpoint that answers at `/`, or the first one where none does."""
        return next((e for e in self.endpoints if e.path == "/"), self.endpoints[0])

    @property
    def is_class(self) -> bool:
        """Whether a class was decorated."""
        return inspect.isclass(self.user)

    @property
    def limits(self) -> Limits:
        """The concurrency of an instance: as set, else derived from the batching and the kind of the handler."""
        spec = self.spec
        if spec.batching is not None:
            target = spec.batching.instances * spec.batching.max_batch_size
            most = target + spec.batching.max_batch_size
        elif all(each.signature.kind.startswith("async") for e in self.endpoints for each in e.each):
            target, most = 70, 100
        else:
            target, most = 1, 2
        most = spec.scaling.max_inputs or max(most, spec.scaling.target_inputs or 0)
        target = spec.scaling.target_inputs or min(target, most)
        queue = spec.calls.max_queue if spec.calls.max_queue is not None else 10 * most
        return Limits(target, most, queue)

    @property
    def in_process(self) -> Local:
        """The handler of this process, which calls made here share."""
        from faas.local import Local  # only callers in process pay for it

        if self._local is None:
            self._local = Local(self)
        return self._local

    @property
    def _led_to(self) -> tuple[Function, Endpoint]:
        return self, self.main

    def with_options(self, **settings: Any) -> Function:
        """Return the same function with other settings.

        Raises:
            SettingError: as the decorator does.
        """
        _refuse_unknown("with_options", settings)
        merged = {name: getattr(self.spec, name) for name in _SETTINGS} | settings
        return make(self.user, merged)


def endpoint(path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a method of a decorated class public at `path`.

    Raises:
        SettingError: `path` does not begin with a slash, or is one of the instance's own.
    """
    if not isinstance(path, str) or not path.startswith("/") or (path != "/" and path.endswith("/")):
        raise SettingError(f"endpoint({path!r}): write a path such as '/count'")
    if any(path == taken or path.startswith(f"{taken}/") for taken in RESERVED_PATHS):
        raise SettingError(f"endpoint({path!r}): the path belongs to the instance itself; choose another")

    def mark(method: Callable[..., Any]) -> Callable[..., Any]:
        setattr(method, _MARK, path)
        return method

    return mark


@overload
def inference_function(user: Callable[..., Any], /) -> Function: ...
@overload
def inference_function(
    *,
    name: str | None = None,
    resources: Resources = ...,
    batching: Batching | None = None,
    scaling: Scaling = ...,
    calls: Calls = ...,
    snapshot: str | Snapshot = "state",
    **settings: Any,
) -> Callable[[Callable[..., Any]], Function]: ...


def inference_function(user: Any = None, /, **settings: Any) -> Any:
    """Make a function or a class servable. Bare, or with settings (see `FunctionSpec`).

    Raises:
        SettingError: a setting is unknown, out of range or contradicts another; an annotation does not suit.
    """
    _refuse_unknown("inference_function", settings)
    scope = sys._getframe(1).f_locals
    if user is None:
        return lambda decorated: make(decorated, settings, scope)
    return make(user, settings, scope)


def _refuse_unknown(what: str, settings: Mapping[str, Any]) -> None:
    """Raise SettingError for a setting that there is not; tell where it is one of a policy's."""
    for key in settings:
        home = next((kind for kind in _POLICIES if key in kind.__dataclass_fields__), None)
        if key not in _SETTINGS and home is not None:
            where = f"{home.__name__.lower()}={home.__name__}({key}=...)"
            raise SettingError(f"{what} has no setting {key!r} of its own; write {where}")
    refuse_unknown(what, settings, _SETTINGS)


def make(user: Any, settings: Mapping[str, Any], scope: Mapping[str, Any] | None = None) -> Function:
    """Return the function that decorating `user` makes; `scope` holds names that its annotations may use.

    Raises:
        SettingError: as the decorator does.
    """
    scope = scope or {}
    if isinstance(user, Function) or not (inspect.isclass(user) or inspect.isfunction(user)):
        raise SettingError(f"inference_function decorates a function or a class, once; this is {user!r}")
    given = dict(settings)
    given["name"] = names.label(given.get("name") or user.__name__)
    if isinstance(given.get("snapshot"), str):
        given["snapshot"] = Snapshot(mode=given["snapshot"])
    spec = FunctionSpec(**given)
    if spec.versions is not None and not inspect.isclass(user):
        raise SettingError(f"{user.__name__}: versions= needs a class, whose setup() makes the state of each version")
    endpoints = _class_endpoints(user, spec, scope) if inspect.isclass(user) else (_endpoint("/", user, spec, scope),)
    varied = next((e for e in endpoints if e.variants), endpoints[0])
    variants.check(spec, user.__name__, varied.variants, varied.signature)
    cacheable.check(spec, user.__name__, {e.method: e.signature for e in endpoints})
    check_methods(spec.batching, user.__name__, [each.method for e in endpoints for each in e.each])
    return Function(user, spec, endpoints)


def _class_endpoints(user: type, spec: FunctionSpec, scope: Mapping[str, Any]) -> tuple[Endpoint, ...]:
    found: dict[str, Endpoint] = {}
    _check_init(user)
    methods = _methods(user)
    marks = {name: _mark_of(user, name) for name in methods}
    marked = {name: path for name, path in marks.items() if path is not None}
    free = "/" if "/" not in marked.values() else "/predict"
    held = variants.found_in(user, methods, marked)
    if held:
        each = [_endpoint(free, methods[name], spec, scope) for name in held]
        variants.check_alike(user.__name__, {e.method: e.signature for e in each})
        found[free] = replace(each[0], variants=tuple(replace(held[e.method], kind=e.signature.kind) for e in each))
    elif PREDICT in methods and PREDICT not in marked:
        marked = {PREDICT: free} | marked
    if not marked and not held:
        raise SettingError(
            f"class {user.__name__} has no method predict and none marked @endpoint('/path'){_others(user, methods)}"
        )
    for name, path in marked.items():
        if path in found:
            raise SettingError(f"class {user.__name__}: {found[path].method} and {name} are both at {path}")
        found[path] = _endpoint(path, methods[name], spec, scope)
    for hook in _HOOKS:
        if hook in methods and inspect.iscoroutinefunction(methods[hook]):
            raise SettingError(f"class {user.__name__}: {hook}() runs on the model thread; write it as a plain method")
    return tuple(found.values())


def _check_init(user: type) -> None:
    """Refuse an `__init__` that asks for something: there is nobody who would give it."""
    if user.__init__ is object.__init__:  # type: ignore[misc]
        return
    for parameter in list(inspect.signature(user.__init__).parameters.values())[1:]:  # type: ignore[misc]
        if parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise SettingError(
                f"class {user.__name__}: __init__() needs {parameter.name!r}, and is called without arguments; give it "
                "a default, or make it in setup()"
            )


def _others(user: type, methods: Mapping[str, Callable[..., Any]]) -> str:
    """Return which methods of a class might be meant to answer."""
    public = [name for name in methods if not name.startswith("_") and name not in _HOOKS]
    public += [name for name in ("__call__",) if name in vars(user)]
    return f"; name or mark the one that answers: {', '.join(public)}" if public else ""


def _check_self(method: Callable[..., Any]) -> None:
    """Refuse a method without a `self`, whose first input would be taken for it."""
    plain = getattr(method, "__func__", None)
    if not inspect.isfunction(plain) or inspect.isclass(getattr(method, "__self__", None)):
        return
    first = next(iter(inspect.signature(plain).parameters.values()), None)
    if first is None or (first.annotation is not first.empty and first.name != "self"):
        raise SettingError(f"{plain.__qualname__}: the first parameter of a method is the object: write (self, ...)")


def _mark_of(user: type, name: str) -> str | None:
    """Return the path that a method was marked with, by `endpoint` around or inside of `staticmethod`."""
    method = inspect.getattr_static(user, name)
    path: str | None = getattr(method, _MARK, None) or getattr(getattr(method, "__func__", None), _MARK, None)
    return path


def _methods(user: type) -> dict[str, Callable[..., Any]]:
    """Return a class's methods, static and class methods too, as an object of its would have them."""
    found: dict[str, Callable[..., Any]] = {}
    for name in dir(user):
        method = inspect.getattr_static(user, name)
        if not name.startswith("__") and isinstance(method, FunctionType | staticmethod | classmethod):
            found[name] = method.__get__(object.__new__(user), user)
    return found


def _endpoint(path: str, method: Callable[..., Any], spec: FunctionSpec, scope: Mapping[str, Any]) -> Endpoint:
    batching = spec.batching
    _check_self(method)
    signature = Signature.of(
        method,
        batched=batching is not None,
        rows=batching is not None and batching.rows,
        pad=batching.padding if batching is not None else None,
        example=spec.warmup[0] if spec.warmup else None,
        scope=scope,
    )
    if batching is not None and signature.streams:
        _check_streams(method.__qualname__, batching)
    return Endpoint(path, method.__name__, signature)


def _check_streams(title: str, batching: Batching) -> None:
    for setting in ("rows", "preserve_order"):
        if getattr(batching, setting):
            raise SettingError(f"{title} is a generator, and Batching({setting}=True) is for answers in one piece")


def class_of(named: object) -> type | None:
    """Return the class that a name stands for, itself or decorated; None where it stands for something else."""
    kind = named.user if type(named) is Function else named  # an object of the user's may lie about its class
    return kind if issubclass(type(kind), type) else None  # type: ignore[return-value]
