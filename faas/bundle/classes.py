"""How a class that no file holds is taken apart: by cloudpickle, or as what its metaclass makes it from.

cloudpickle makes a class empty and then gives it its attributes. That loses what a `TypedDict` or a msgspec `Struct` is
declared with, which their metaclasses only look at when they make the class. Of an enumeration it keeps the members and
their values, but neither what else they hold nor their other names.
"""

from __future__ import annotations

import enum
import typing
from types import MemberDescriptorType
from typing import Any, Final

import msgspec
from cloudpickle import cloudpickle as internals

from faas.bundle import rebuilt

_OF_EACH_CLASS: Final = ("__module__", "__doc__", "__dict__", "__weakref__", "__slots__", "_abc_impl")
_OF_EACH_MEMBER: Final = ("_value_", "_name_", "__objclass__", "_sort_order_")
_PYDANTIC: Final = "pydantic_core._pydantic_core"
"""Where validators are made of schemas, which have to be whole by then, and may refer to each other."""
_CACHE_OF_MSGSPEC: Final = "__msgspec_cache__"
_STRUCT_META: Final = type(msgspec.Struct)
_STRUCT_OPTIONS: Final = (
    "frozen",
    "eq",
    "order",
    "array_like",
    "gc",
    "repr_omit_defaults",
    "omit_defaults",
    "forbid_unknown_fields",
    "weakref",
    "dict",
    "cache_hash",
    "tag",
    "tag_field",
)


def reduce(kind: Any, module: str, globals_: dict[str, Any]) -> tuple[Any, ...]:
    """Return what pickle makes a class from; `globals_` are those of its `module` that it reaches."""
    if typing.is_typeddict(kind):
        made = (kind.__name__, _declaration(kind, _keys(kind)), bool(kind.__total__))
        return rebuilt.typed_dict, made, (module, globals_), None, None, rebuilt.set_globals
    if isinstance(kind, _STRUCT_META):
        return rebuilt.declared, _struct(kind), (module, globals_), None, None, rebuilt.set_globals
    maker, args, (attributes, slots), *_ = internals._dynamic_class_reduce(kind)
    members: dict[str, Any] = {}
    if issubclass(kind, enum.Enum):
        members = {name: _held(member) for name, member in kind.__members__.items()}
        args = _with_all_names(kind, args)
        attributes = {name: value for name, value in attributes.items() if name not in members}
    else:
        attributes |= _overrides(kind)
    attributes.pop(_CACHE_OF_MSGSPEC, None)
    compiled = {name: value.__reduce__() for name, value in attributes.items() if type(value).__module__ == _PYDANTIC}
    attributes = {name: value for name, value in attributes.items() if name not in compiled}
    named = {"name": kind.__qualname__, "module": module, "globals": globals_, "members": members, "compiled": compiled}
    state = (attributes, slots, named)
    return rebuilt.class_, (maker, _with_slots(kind, untracked(kind, args))), state, None, None, rebuilt.set_class


def _held(member: enum.Enum) -> dict[str, Any]:
    """Return what a member holds besides its name and value: its `__init__` or `__new__` gave it that."""
    return {name: value for name, value in vars(member).items() if name not in _OF_EACH_MEMBER}


def _with_all_names(kind: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Have an enumeration made with the further names of its members, too."""
    named = {
        name: enum.member(value) if hasattr(value, "__get__") else value  # else a function would be a method
        for name, value in ((name, member._value_) for name, member in kind.__members__.items())
    }
    return tuple(named if isinstance(arg, dict) else arg for arg in args)


def _overrides(kind: type) -> dict[str, Any]:
    """Return the attributes that a class sets to what a base has, too, which cloudpickle takes for inherited."""
    absent = object()
    own = {"".join(name): value for name, value in sorted(vars(kind).items()) if name not in _OF_EACH_CLASS}
    return {
        name: value
        for name, value in own.items()
        if any(vars(base).get(name, absent) is value for base in kind.__bases__)
    }


def untracked(one: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out the name by which cloudpickle would take a class for one that it has seen: it is another each time."""
    tracker = internals._get_or_create_tracker_id(one)
    return tuple(None if isinstance(arg, str) and arg == tracker else arg for arg in args)


def _with_slots(kind: type, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Have a class made with its `__slots__`, which mean nothing to a class that is there."""
    if "__slots__" not in vars(kind) or issubclass(kind, tuple):
        return args
    slots = {"__slots__": vars(kind)["__slots__"]}
    return tuple({**arg, **slots} if isinstance(arg, dict) and "__module__" in arg else arg for arg in args)


def _declaration(kind: Any, annotations: dict[str, Any]) -> dict[str, Any]:
    return {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__annotations__": annotations,
    }


def _keys(kind: Any) -> dict[str, Any]:
    """Return the annotations of a TypedDict with optional keys marked as such."""
    found = {}
    for key, annotation in kind.__annotations__.items():
        if isinstance(annotation, typing.ForwardRef):  # as text again: it would be looked for in the module of here
            annotation = annotation.__forward_arg__
        is_marked = typing.get_origin(annotation) in (typing.Required, typing.NotRequired)
        optional = key in kind.__optional_keys__ and not is_marked
        found[key] = typing.NotRequired[annotation] if optional else annotation
    return found


def _struct(kind: Any) -> tuple[Any, ...]:
    """Return what a msgspec Struct is declared with, for `rebuilt.declared`."""
    own = vars(kind).get("__annotations__", {})
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    namespace = _declaration(kind, own)
    for name in own:
        field = fields.get(name)
        if field is not None and not field.required:
            namespace[name] = _default(field)
    generated = {*fields, *namespace, "__match_args__", "__weakref__", "__dict__", "__slots__"}
    namespace |= {
        name: value
        for name, value in vars(kind).items()
        if name not in generated and not name.startswith("__struct_") and not isinstance(value, MemberDescriptorType)
    }
    config = kind.__struct_config__
    options = {name: getattr(config, name) for name in _STRUCT_OPTIONS if hasattr(config, name)}
    renamed = {field.name: field.encode_name for field in fields.values() if field.name != field.encode_name}
    if renamed:
        options["rename"] = renamed
    options["kw_only"] = not {name for name in own if name in fields}.isdisjoint(set(fields) - set(kind.__match_args__))
    return type(kind), kind.__name__, _bases(kind), namespace, options


def _default(field: Any) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return msgspec.field(default_factory=field.default_factory)


def _bases(kind: Any) -> tuple[Any, ...]:
    return tuple(vars(kind).get("__orig_bases__", kind.__bases__))
