"""Shapes of users' code: the source of each, and what its function is called with and answers."""
# ruff: noqa: E501 (users' code as text)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

HEAD = "from faas import inference_function\n"


@dataclass(frozen=True)
class Shape:
    """`source` defines `f`; `calls` are pairs of keyword arguments and the answer, in order."""

    source: str
    calls: list[tuple[dict[str, Any], Any]]


SHAPES = {
    "function": Shape("@inference_function\ndef f(x: int) -> int: return x + 1\n", [({"x": 1}, 2)]),
    "constant": Shape("K = 5\n@inference_function\ndef f(x: int) -> int: return x * K\n", [({"x": 2}, 10)]),
    "class": Shape(
        "@inference_function\nclass f:\n"
        "    def setup(self): self.k = 3\n"
        "    def predict(self, x: int) -> int: return x * self.k\n",
        [({"x": 2}, 6)],
    ),
    "async": Shape(
        "import asyncio\n@inference_function\nasync def f(x: int) -> int:\n    await asyncio.sleep(0)\n    return -x\n",
        [({"x": 2}, -2)],
    ),
    "generator": Shape(
        "@inference_function\ndef f(n: int):\n    for i in range(n): yield {'i': i}\n",
        [({"n": 2}, [{"i": 0}, {"i": 1}])],
    ),
    "closure": Shape(
        "def counter(start):\n    n = start\n    def up(by):\n        nonlocal n\n        n += by\n        return n\n"
        "    def now(): return n\n    return up, now\n"
        "up, now = counter(10)\n"
        "@inference_function\ndef f(x: int) -> list: return [up(x), now()]\n",
        [({"x": 1}, [11, 11]), ({"x": 5}, [16, 16])],
    ),
    "dataclass": Shape(
        "import dataclasses\n"
        "@dataclasses.dataclass\nclass Req:\n    a: int\n    tags: list[str] = dataclasses.field(default_factory=list)\n"
        "@inference_function\ndef f(req: Req) -> dict:\n"
        "    assert isinstance(req, Req)\n"
        "    bare = [x.name for x in dataclasses.fields(Req) if x.default is dataclasses.MISSING]\n"
        "    return {**dataclasses.asdict(req), 'bare': bare, 'again': dataclasses.replace(req, a=0).a}\n",
        [({"a": 1}, {"a": 1, "tags": [], "bare": ["a", "tags"], "again": 0})],
    ),
    "enum": Shape(
        "import enum\n"
        "class Mode(enum.Enum):\n    FAST = 'fast'\n    SLOW = 'slow'\n"
        "    @property\n    def short(self): return self.value[0]\n"
        "class Bits(enum.IntFlag):\n    A = 1\n    B = 2\n"
        "@inference_function\ndef f(mode: Mode) -> dict:\n"
        "    return {'fast': mode is Mode.FAST, 'same': Mode('slow') is Mode.SLOW, 'short': mode.short,"
        " 'bits': int(Bits.A | Bits.B), 'names': [m.name for m in Mode]}\n",
        [({"mode": "fast"}, {"fast": True, "same": True, "short": "f", "bits": 3, "names": ["FAST", "SLOW"]})],
    ),
    "enum_with_more": Shape(
        "import enum\n"
        "class Planet(enum.Enum):\n    EARTH = (5.0, 2.0)\n    MARS = (3.0, 1.0)\n    RED = MARS\n"
        "    def __init__(self, mass, radius): self.mass, self.radius = mass, radius\n"
        "    @property\n    def density(self): return self.mass / self.radius\n"
        "class Code(str, enum.Enum):\n    OK = 'ok', 'all is well'\n    NO = 'no', 'not so'\n"
        "    def __new__(cls, value, text):\n        made = str.__new__(cls, value)\n"
        "        made._value_, made.text = value, text\n        return made\n"
        "class Perm(enum.Flag):\n    NONE = 0\n    R = enum.auto()\n    W = enum.auto()\n    RW = R | W\n"
        "class Step(enum.Enum):\n    @enum.member\n    def go(): return 5\n"
        "@inference_function\ndef f(code: Code) -> dict:\n"
        "    return {'density': Planet.EARTH.density, 'red': Planet.RED is Planet.MARS is Planet['RED'],"
        " 'named': list(Planet.__members__), 'text': code.text, 'is': code == 'ok', 'rw': Perm['RW'] == Perm.R | Perm.W,"
        " 'none': Perm['NONE'] is Perm(0), 'all': [p.name for p in Perm], 'go': Step.go.value()}\n",
        [
            (
                {"code": "ok"},
                {
                    "density": 2.5,
                    "red": True,
                    "named": ["EARTH", "MARS", "RED"],
                    "text": "all is well",
                    "is": True,
                    "rw": True,
                    "none": True,
                    "all": ["R", "W"],
                    "go": 5,
                },
            )
        ],
    ),
    "announced_subclasses": Shape(
        "from aid.registry import Named, NAMED\n"
        "TOOLS = {}\n"
        "class Tool:\n    def __init_subclass__(cls, /, key, **rest):\n        super().__init_subclass__(**rest)\n"
        "        cls.key = key\n        TOOLS[key] = cls\n"
        "class Add(Tool, key='add'):\n    def run(self, x): return x + 1\n"
        "class Twice(Add, key='twice'):\n    def run(self, x): return super().run(x) * 2\n"
        "class Third(Named):\n    name = 'third'\n"
        "@inference_function\ndef f(x: int) -> list: return [[TOOLS[k]().run(x) for k in TOOLS], Twice.key, TOOLS['add'] is Add,"
        " NAMED['third'] is Third, Tool.__init_subclass__.__name__]\n",
        [({"x": 1}, [[2, 4], "twice", True, True, "__init_subclass__"])],
    ),
    "overrides": Shape(
        "class P:\n    version = 1\nclass Q(P):\n    version = 1\nclass R(P):\n    version = 2\nclass S(Q, R): ...\n"
        "@inference_function\ndef f(x: int) -> list: return [S.version, 'version' in vars(Q)]\n",
        [({"x": 1}, [1, True])],
    ),
    "typed_dict": Shape(
        "from typing import NotRequired, TypedDict\n"
        "class Req(TypedDict):\n    a: int\n    b: NotRequired[str]\n"
        "@inference_function\ndef f(req: Req) -> dict: return {'a': req['a'], 'b': req.get('b', '-')}\n",
        [({"a": 1}, {"a": 1, "b": "-"}), ({"a": 1, "b": "x"}, {"a": 1, "b": "x"})],
    ),
    "struct": Shape(
        "import msgspec\n"
        "class Base(msgspec.Struct, forbid_unknown_fields=True):\n    a: int\n"
        "from typing import Annotated\nFew = Annotated[list[int], msgspec.Meta(max_length=2, description='few')]\n"
        "class Req(Base, kw_only=True, rename={'b': 'B'}):\n    b: int = 7\n    c: Few = msgspec.field(default_factory=list)\n"
        "    def sum(self): return self.a + self.b + sum(self.c)\n"
        "@inference_function\ndef f(req: Req) -> int: return req.sum()\n",
        [({"a": 1}, 8), ({"a": 1, "B": 2, "c": [3]}, 6)],
    ),
    "pydantic": Shape(
        "import pydantic\n"
        "class Req(pydantic.BaseModel):\n    a: int\n    b: str = 'b'\n"
        "    @pydantic.field_validator('a')\n    @classmethod\n    def _double(cls, v): return v * 2\n"
        "@inference_function\ndef f(req: Req) -> dict: return {'a': req.a, 'b': req.b}\n",
        [({"a": 2}, {"a": 4, "b": "b"})],
    ),
    "partial": Shape(
        "import functools\n"
        "def add(a, b): return a + b\n"
        "add_two = functools.partial(add, 2)\n"
        "@inference_function\ndef f(x: int) -> int: return add_two(x)\n",
        [({"x": 1}, 3)],
    ),
    "decorator": Shape(
        "import functools\n"
        "def twice(fn):\n    @functools.wraps(fn)\n    def wrapper(x): return fn(fn(x))\n    return wrapper\n"
        "@twice\ndef step(x): return x * 3\n"
        "@inference_function\ndef f(x: int) -> int: return step(x)\n",
        [({"x": 1}, 9)],
    ),
    "inheritance": Shape(
        "import abc\n"
        "class Base(abc.ABC):\n    @abc.abstractmethod\n    def k(self): ...\n    def go(self, x): return x + self.k()\n"
        "class Impl(Base):\n    def k(self): return 10\n    def go(self, x): return super().go(x) * 2\n"
        "@inference_function\ndef f(x: int) -> list: return [Impl().go(x), issubclass(Impl, Base)]\n",
        [({"x": 1}, [22, True])],
    ),
    "lambda": Shape(
        "table = {'neg': lambda x: -x, 'sq': lambda x: x * x}\n"
        "@inference_function\ndef f(op: str, x: int) -> int: return table[op](x)\n",
        [({"op": "neg", "x": 3}, -3), ({"op": "sq", "x": 3}, 9)],
    ),
    "nested": Shape(
        "K = 4\n"
        "def build():\n    k = 2\n    @inference_function\n    def f(x: int) -> int:\n"
        "        def inner(y): return y * k + K\n        return inner(x)\n    return f\n"
        "f = build()\n",
        [({"x": 3}, 10)],
    ),
    "global_of_setup": Shape(
        "MODEL = None\nCALLS = 0\n"
        "def load():\n    global MODEL\n    MODEL = 7\n"
        "@inference_function\nclass f:\n"
        "    def setup(self): load()\n"
        "    def predict(self, x: int) -> list:\n        global CALLS\n        CALLS += 1\n        return [x + MODEL, CALLS]\n",
        [({"x": 1}, [8, 1]), ({"x": 1}, [8, 2])],
    ),
    "lazy_import": Shape(
        "@inference_function\ndef f(x: int) -> int:\n    import aid.lazy\n    from aid.deep import deeper\n"
        "    return aid.lazy.up(x) + deeper.K\n",
        [({"x": 1}, 102)],
    ),
    "package": Shape(
        "from aid.util import add, K\n@inference_function\ndef f(a: int, b: int) -> int: return add(a, b) * K\n",
        [({"a": 1, "b": 2}, 15)],
    ),
    "star": Shape(
        "from aid.star import *\n@inference_function\ndef f(x: int) -> int: return shown(x) + SHOWN\n",
        [({"x": 1}, 103)],
    ),
    "by_made_up_name": Shape(
        "import importlib\n"
        "@inference_function\ndef f(x: int) -> int:\n    return importlib.import_module('aid.by_name').K + x\n",
        [({"x": 1}, 301)],
    ),
    "slots": Shape(
        "class Point:\n    __slots__ = ('x', 'y')\n    def __init__(self, x, y): self.x, self.y = x, y\n"
        "    def __add__(self, other): return Point(self.x + other.x, self.y + other.y)\n"
        "ORIGIN = Point(1, 2)\n"
        "@inference_function\ndef f(x: int) -> list:\n    p = ORIGIN + Point(x, x)\n    return [p.x, p.y, hasattr(p, '__dict__')]\n",
        [({"x": 1}, [2, 3, False])],
    ),
    "generic": Shape(
        "from typing import Generic, TypeVar\n"
        "T = TypeVar('T')\n"
        "class Box(Generic[T]):\n    def __init__(self, held: T): self.held = held\n    def get(self) -> T: return self.held\n"
        "class IntBox(Box[int]): ...\n"
        "@inference_function\ndef f(x: int) -> list: return [IntBox(x).get(), Box[int].__origin__ is Box]\n",
        [({"x": 4}, [4, True])],
    ),
    "properties": Shape(
        "import functools\n"
        "class Circle:\n    unit = 'cm'\n    def __init__(self, r): self._r = r\n"
        "    @property\n    def r(self): return self._r\n    @r.setter\n    def r(self, value): self._r = value\n"
        "    @functools.cached_property\n    def area(self): return 3 * self.r ** 2\n"
        "    @classmethod\n    def of(cls, r): return cls(r)\n    @staticmethod\n    def two(): return 2\n"
        "@inference_function\ndef f(r: int) -> list:\n    c = Circle.of(r)\n    c.r = c.r + Circle.two()\n    return [c.area, c.area, c.unit]\n",
        [({"r": 1}, [27, 27, "cm"])],
    ),
    "cached": Shape(
        "import functools\n"
        "@functools.lru_cache(maxsize=9)\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "@inference_function\ndef f(n: int) -> list: return [fib(n), fib.cache_info().maxsize]\n",
        [({"n": 10}, [55, 9])],
    ),
    "named_tuple": Shape(
        "from collections import namedtuple\nfrom typing import NamedTuple\n"
        "Pair = namedtuple('Pair', 'a b')\n"
        "class Named(NamedTuple):\n    a: int\n    b: int = 5\n"
        "@inference_function\ndef f(x: int) -> list: return [*Pair(x, 1)._replace(b=2), *Named(x), Named._fields]\n",
        [({"x": 1}, [1, 2, 1, 5, ["a", "b"]])],
    ),
    "text_annotations": Shape(
        "from __future__ import annotations\nimport dataclasses\n"
        "@dataclasses.dataclass\nclass Node:\n    v: int\n    next: Node | None = None\n"
        "@inference_function\ndef f(node: Node) -> int:\n    return node.v + (node.next.v if node.next else 0)\n",
        [({"v": 1, "next": {"v": 2}}, 3)],
    ),
    "submodule": Shape(
        "import concurrent.futures\nimport os\n"
        "@inference_function\ndef f(x: int) -> list:\n"
        "    with concurrent.futures.ThreadPoolExecutor(1) as pool: return [pool.submit(abs, x).result(), os.path.join('a', 'b')]\n",
        [({"x": -1}, [1, "a/b"])],
    ),
    "functions_of_functions": Shape(
        "@inference_function\ndef other(x: int) -> int: return x * 2\n"
        "@inference_function(name='f')\ndef f(x: int) -> list: return [other(x), f.name]\n",
        [({"x": 2}, [4, "f"])],
    ),
    "batched": Shape(
        "from faas import Batching, endpoint\nimport faas\n"
        "@inference_function(batching=Batching(max_batch_size=4), warmup=[1])\nclass f:\n"
        "    def predict(self, xs: list[int]) -> list[int]: return [x + 1 for x in xs]\n"
        "    @endpoint('/count')\n    def count(self, xs: list[int]) -> list[int]: return [len(xs)] * len(xs)\n",
        [({"xs": 1}, 2)],
    ),
    "exceptions": Shape(
        "class Odd(ValueError):\n    def __init__(self, n): super().__init__(f'{n} is odd')\n"
        "class Coded(Exception):\n    def __init__(self, code, *, why):\n        super().__init__(why)\n        self.code = code\n"
        "ZERO, coded, name = Odd(0), Coded(4, why='x'), AttributeError('a', name='n', obj=1)\n"
        "def check(n):\n    if n % 2: raise Odd(n)\n    if not n: raise ZERO\n    return f'{n} {coded.code} {coded} {name}'\n"
        "@inference_function\ndef f(n: int) -> str:\n    try: return str(check(n))\n    except Odd as error: return str(error)\n",
        [({"n": 1}, "1 is odd"), ({"n": 0}, "0 is odd"), ({"n": 2}, "2 4 x a")],
    ),
    "metaclass": Shape(
        "REGISTRY = {}\n"
        "class Meta(type):\n    def __new__(mcs, name, bases, ns):\n        made = super().__new__(mcs, name, bases, ns)\n"
        "        REGISTRY[name] = made\n        return made\n"
        "class Base(metaclass=Meta): ...\nclass Impl(Base):\n    k = 2\n"
        "@inference_function\ndef f(x: int) -> list: return [REGISTRY['Impl'] is Impl, Impl.k * x, sorted(REGISTRY)]\n",
        [({"x": 3}, [True, 6, ["Base", "Impl"]])],
    ),
    "builtins": Shape(
        "@inference_function\ndef f(x: int) -> bool: return '__builtins__' in globals() and eval('max(x, 1)') == 1\n",
        [({"x": 0}, True)],
    ),
    "single_dispatch": Shape(
        "import functools\n"
        "@functools.singledispatch\ndef kind(v): return 'other'\n"
        "@kind.register\ndef _(v: int): return 'int' + kind(str(v))\n"
        "@kind.register(str)\ndef _(v): return 'str'\n"
        "class Shown:\n    @functools.singledispatchmethod\n    def show(self, v): return '?'\n"
        "    @show.register\n    def _(self, v: int): return '#'\n"
        "@inference_function\ndef f(x: int) -> list: return [kind(x), kind(1.5), Shown().show(x), Shown().show('a')]\n",
        [({"x": 1}, ["intstr", "other", "#", "?"])],
    ),
    "names_of_types": Shape(
        "from typing import Callable, Generic, NewType, ParamSpec, TypeVar, TypeVarTuple, Unpack\n"
        "UserId = NewType('UserId', int)\nP = ParamSpec('P')\nR = TypeVar('R')\nTs = TypeVarTuple('Ts')\n"
        "class Many(Generic[Unpack[Ts]]): ...\n"
        "def plain(fn: Callable[P, R]) -> Callable[P, R]:\n"
        "    def inner(*a: P.args, **k: P.kwargs) -> R: return fn(*a, **k)\n    return inner\n"
        "@plain\ndef up(x: int) -> int: return x + 1\n"
        "@inference_function\ndef f(x: UserId) -> list: return [up(UserId(x)), UserId.__name__, Many[int, str].__args__ == (int, str)]\n",
        [({"x": 1}, [2, "UserId", True])],
    ),
    "of_one_process": Shape(
        "import contextvars, threading, types, weakref\n"
        "asked = contextvars.ContextVar('asked', default=5)\nbare = contextvars.ContextVar('bare')\n"
        "here = threading.local()\nheld = weakref.WeakValueDictionary()\nseen = weakref.WeakKeyDictionary()\n"
        "fixed = types.MappingProxyType({'a': 1})\n"
        "@inference_function\ndef f(x: int) -> list:\n"
        "    first = asked.get()\n    asked.set(x)\n    here.y = x\n"
        "    return [first, asked.get(), bare.get(None), here.y, len(held) + len(seen), fixed['a']]\n",
        [({"x": 1}, [5, 1, None, 1, 0, 1])],
    ),
    "typed_dict_as_text": Shape(
        "from __future__ import annotations\nfrom typing import NewType, Optional, TypedDict\n"
        "Uid = NewType('Uid', str)\nclass Inner(TypedDict):\n    n: int\n"
        "class Req(TypedDict, total=False):\n    u: Uid\n    inner: list[Inner]\n"
        "@inference_function\ndef f(req: Optional[Req]) -> list: return [req.get('u', '-'), [i['n'] for i in req.get('inner', [])]]\n",
        [({"u": "a", "inner": [{"n": 2}]}, ["a", [2]]), ({}, ["-", []])],
    ),
    "pydantic_models_of_each_other": Shape(
        "import pydantic\nfrom typing import Optional\n"
        "class Node(pydantic.BaseModel):\n    v: int\n    next: Optional['Node'] = None\n"
        "class Root(pydantic.RootModel[list[Node]]): ...\n"
        "@pydantic.dataclasses.dataclass\nclass Pair:\n    a: int\n    b: str = 'b'\n"
        "PAIRS = pydantic.TypeAdapter(list[Pair])\n"
        "@pydantic.validate_call\ndef more(n: int) -> int: return n + 1\n"
        "@inference_function\ndef f(nodes: Root) -> list:\n"
        "    return [sum(n.v + (n.next.v if n.next else 0) for n in nodes.root), more('4'), Pair(a='5').a,"
        " PAIRS.validate_python([{'a': 1}])[0].b]\n",
        [([{"v": 1, "next": {"v": 2}}], [3, 5, 5, "b"])],
    ),
    "delegating": Shape(
        "import struct, threading\n"
        "class Proxy:\n    def __init__(self, inner): self._inner = inner\n"
        "    def __getattr__(self, name): return getattr(self._inner, name)\n"
        "class Slotted:\n    __slots__ = ('inner',)\n    def __init__(self, inner): self.inner = inner\n"
        "    def __getattr__(self, name): return getattr(self.inner, name)\n"
        "class Asked(dict):\n    def __getattr__(self, name): return self[name]\n"
        "class Stats(threading.local):\n    def __init__(self): self.n = 0\n"
        "PROXY, SLOTTED, ASKED, STATS, PAIR = Proxy('ab'), Slotted('ab'), Asked(k=3), Stats(), struct.Struct('<hh')\n"
        "ASKED.more = 4\n"
        "@inference_function\ndef f(x: int) -> list:\n"
        "    return [PROXY.upper(), SLOTTED.upper(), ASKED.k, vars(ASKED), STATS.n, PAIR.size]\n",
        [({"x": 1}, ["AB", "AB", 3, {"more": 4}, 0, 4])],
    ),
    "annotations_with_text": Shape(
        "import dataclasses\nfrom typing import Optional\n"
        "@dataclasses.dataclass\nclass Leaf:\n    v: int\n"
        "@dataclasses.dataclass\nclass Node:\n    v: int\n    leaf: Optional['Leaf'] = None\n"
        "@inference_function\ndef f(nodes: list['Node'], one: Optional['Leaf'] = None) -> int: return sum(n.v for n in nodes)\n",
        [({"nodes": [{"v": 1}, {"v": 2, "leaf": {"v": 3}}]}, 3)],
    ),
    "method_state": Shape(
        "class Scaler:\n    def __init__(self, k): self.k = k\n    def scale(self, x): return x * self.k\n"
        "scale = Scaler(3).scale\n"
        "@inference_function\ndef f(x: int) -> int: return scale(x)\n",
        [({"x": 2}, 6)],
    ),
}

AID = {
    "aid/__init__.py": "",
    "aid/util.py": "from . import numbers\nfrom .numbers import K\ndef add(a, b): return a + b + numbers.ZERO\n",
    "aid/numbers.py": "K = 5\nZERO = 0\n",
    "aid/lazy.py": "def up(x):\n    from .inner.most import ONE\n    return x + ONE\n",
    "aid/inner/most.py": "ONE = 1\n",
    "aid/deep/__init__.py": "",
    "aid/deep/deeper.py": "K = 100\n",
    "aid/star.py": "__all__ = ['shown', 'SHOWN']\nSHOWN = 100\nfrom .inner.most import ONE\ndef shown(x): return x + ONE + ONE - 0\n",
    "aid/by_name.py": "K = 300\n",
    "aid/registry.py": "NAMED = {}\nclass Named:\n    def __init_subclass__(cls): NAMED[cls.name] = cls\n",
}
"""A package beside the code: with relative imports, a folder without `__init__.py`, modules imported late."""
