"""More shapes of users' code: classes that others write, what is looked for by text, what each module has."""
# ruff: noqa: E501 (users' code as text)

from __future__ import annotations

from tests.bundle.shapes import Shape

MORE = {
    "slotted_dataclasses": Shape(
        "import dataclasses\nfrom dataclasses import dataclass, field\n"
        "@dataclass(slots=True)\nclass Base:\n    a: int = 1\n"
        "@dataclass(slots=True, frozen=True)\nclass Point:\n    x: int\n    y: int = 2\n    def moved(self, by): return dataclasses.replace(self, x=self.x + by)\n"
        "@dataclass(slots=True)\nclass More(Base):\n    b: list = field(default_factory=list)\n"
        "    def total(self): return self.a + sum(self.b)\n"
        "ORIGIN, HELD = Point(0), More(5, [1])\n"
        "@inference_function\ndef f(p: Point) -> list:\n"
        "    p = p.moved(1)\n    return [dataclasses.asdict(p), hasattr(p, '__dict__'), p == Point(2, 3), hash(p) == hash(Point(2, 3)),"
        " ORIGIN.y, HELD.total(), More().b]\n",
        [({"x": 1, "y": 3}, [{"x": 2, "y": 3}, False, True, True, 2, 6, []])],
    ),
    "dataclass_fields": Shape(
        "import dataclasses\nfrom dataclasses import dataclass, field, InitVar, KW_ONLY\nfrom typing import ClassVar, Generic, TypeVar\n"
        "T = TypeVar('T')\n"
        "@dataclass\nclass Box(Generic[T]):\n    held: T\n    made: ClassVar[int] = 0\n    by: InitVar[int] = 3\n    _: KW_ONLY\n    named: str = 'n'\n"
        "    total: int = field(init=False, default=0)\n"
        "    def __post_init__(self, by): self.total = self.held * by; Box.made += 1\n"
        "@dataclass(order=True)\nclass Sub(Box[int]):\n    more: int = field(default=1, kw_only=True, metadata={'k': 1})\n"
        "@inference_function\ndef f(x: int) -> list:\n"
        "    b, s = Box(x, 2, named='m'), Sub(x, more=4)\n"
        "    return [b.total, b.named, [i.name for i in dataclasses.fields(Sub)], s.total, s < Sub(x + 1), Box.made >= 2,"
        " dict(dataclasses.fields(Sub)[-1].metadata), s.by]\n",
        [({"x": 2}, [4, "m", ["held", "named", "total", "more"], 6, True, True, {"k": 1}, 3])],
    ),
    "bases_of_typing": Shape(
        "import abc\nfrom typing import Generic, Protocol, TypeVar, runtime_checkable\n"
        "T = TypeVar('T')\n"
        "class Base(Generic[T]):\n    foo = 'bar'\n    @property\n    def up(self): return self.foo.upper()\nclass Child(Base): ...\n"
        "@runtime_checkable\nclass Runs(Protocol):\n    limit: int = 3\n    def run(self) -> int: ...\n"
        "class Runner:\n    limit = 1\n    def run(self): return 1\nclass Explicit(Runs):\n    def __init__(self, n): self.n = n\n    def run(self): return self.n\n"
        "class Shape(abc.ABC): ...\n@Shape.register\nclass Square: ...\n"
        "@inference_function\ndef f(x: int) -> list:\n"
        "    return [Child().foo, Child().up, isinstance(Runner(), Runs), isinstance(3, Runs), Explicit(x).run(), Explicit(x).limit,"
        " issubclass(Square, Shape), issubclass(int, Shape)]\n",
        [({"x": 2}, ["bar", "BAR", True, False, 2, 3, True, False])],
    ),
    "enums_made_otherwise": Shape(
        "import enum\n"
        "Color = enum.Enum('Color', 'RED BLUE')\nNamed = enum.IntEnum('Named', {'A': 5, 'B': 6})\n"
        "class Word(enum.StrEnum):\n    HI = enum.auto()\n    YES = 'yes'\n"
        "class Loose(enum.Enum):\n    ON = 'on'\n    OFF = 'off'\n"
        "    @classmethod\n    def _missing_(cls, value): return cls.ON if str(value).lower() == 'on' else None\n"
        "class Auto(enum.Enum):\n    @staticmethod\n    def _generate_next_value_(name, start, count, last): return name.lower()\n    ONE = enum.auto()\n"
        "BY = {Color.RED: 1, Word.HI: 2}\n"
        "@inference_function\ndef f(w: Word) -> list:\n"
        "    return [Color.RED is Color['RED'], Color(2).name, int(Named.B), f'{Word.HI}', w is Word.YES, Loose('ON') is Loose.ON,"
        " Auto.ONE.value, BY[Color.RED], BY[Word('hi')], isinstance(w, str)]\n",
        [({"w": "yes"}, [True, "BLUE", 6, "hi", True, True, "one", 1, 2, True])],
    ),
    "globals_by_text": Shape(
        "K, L, M = 3, 4, 5\n"
        "def other(x): return x + 1\n"
        "@inference_function\ndef f(x: int) -> list:\n"
        "    return [globals()['K'] * x, eval('L * x + len(\"a b\")'), eval('other(x)', globals(), {'x': x}), [globals()[n] for n in ('K', 'M')]]\n",
        [({"x": 2}, [6, 11, 3, [3, 5]])],
    ),
    "nested_and_recursive": Shape(
        "class Tree:\n    class Leaf:\n        def __init__(self, v): self.v = v\n        def twice(self): return self.v * 2\n"
        "    def leaf(self, v): return Tree.Leaf(v)\n"
        "class Point:\n    def __init__(self, x): self.x = x\n    def same(self): return Point.ORIGIN is self\n"
        "Point.ORIGIN = Point(7)\nPoint.ALL = [Point.ORIGIN]\n"
        "def even(n): return True if n == 0 else odd(n - 1)\ndef odd(n): return False if n == 0 else even(n - 1)\n"
        "def made():\n    def fact(n): return 1 if n < 2 else n * fact(n - 1)\n    return fact\nfact = made()\n"
        "class Chain:\n    def __init__(self): self.me, self.__own = self, 3\n    def own(self): return self.__own if self.me is self else None\n"
        "chain = Chain()\n"
        "@inference_function\ndef f(n: int) -> list:\n"
        "    return [Tree().leaf(n).twice(), Tree.Leaf.__qualname__, Point.ORIGIN.same(), Point.ALL[0] is Point.ORIGIN, even(n), fact(n), chain.own()]\n",
        [({"n": 4}, [8, "Tree.Leaf", True, True, True, 24, 3])],
    ),
    "types_at_run_time": Shape(
        "from typing import Annotated, Any, Callable, Literal, Optional, Self, get_type_hints\nimport msgspec\n"
        "Size = Annotated[int, msgspec.Meta(ge=1)]\nMode = Literal['fast', 'slow']\nHOW = int | None\n"
        "class Built:\n    n: int | None = None\n    def set(self, n: int | None) -> Self: self.n = n; return self\n"
        "@inference_function\ndef f(n: Size | None, mode: Mode = 'fast', many: list[int] | None = None, fn: Optional[dict[str, Any]] = None) -> list:\n"
        "    return [Built().set(n).n, mode, isinstance(3, HOW), isinstance('a', HOW), get_type_hints(Built)['n'] == (int | None)]\n",
        [({"n": 2, "mode": "slow"}, [2, "slow", True, False, True]), ({"n": None}, [None, "fast", True, False, True])],
    ),
    "containers_and_callables": Shape(
        "import array, collections, contextlib, functools, itertools, operator, types\n"
        "counts = collections.defaultdict(lambda: 5)\nwords = collections.Counter('aab')\nlast = collections.deque([1, 2], maxlen=2)\n"
        "ns = types.SimpleNamespace(a=1)\nkeys = {'a': 1}.keys()\nids = itertools.count(7)\narr = array.array('i', [1, 2])\n"
        "first, up = operator.itemgetter(0), operator.methodcaller('upper')\nchain = collections.ChainMap({'a': 1}, {'b': 2})\n"
        "@contextlib.contextmanager\ndef opened(x):\n    yield x + 1\n"
        "class Button:\n    def set(self, state): return state\n    on = functools.partialmethod(set, True)\n"
        "@functools.total_ordering\nclass V:\n    def __init__(self, n): self.n = n\n    def __lt__(self, o): return self.n < o.n\n    def __eq__(self, o): return self.n == o.n\n"
        "@inference_function\ndef f(x: int) -> list:\n"
        "    last.append(x)\n"
        "    with opened(x) as y: pass\n"
        "    return [counts['z'], words['a'], list(last), ns.a, sorted(keys), next(ids), list(arr), first('pq'), up('a'), chain['b'], y,"
        " Button().on(), V(1) >= V(0)]\n",
        [({"x": 3}, [5, 2, [2, 3], 1, ["a"], 7, [1, 2], "p", "A", 2, 4, True, True])],
    ),
    "pydantic_more": Shape(
        "import pydantic\nfrom typing import Annotated, Generic, Literal, TypeVar, Union\n"
        "T = TypeVar('T')\n"
        "class Page(pydantic.BaseModel, Generic[T]):\n    items: list[T]\n"
        "class Cat(pydantic.BaseModel):\n    kind: Literal['cat']\n    lives: int = 9\n"
        "class Dog(pydantic.BaseModel):\n    kind: Literal['dog']\n"
        "Pet = Annotated[Union[Cat, Dog], pydantic.Field(discriminator='kind')]\n"
        "class Req(pydantic.BaseModel):\n    model_config = pydantic.ConfigDict(frozen=True, extra='forbid')\n    pets: Page[Pet]\n    n: int = pydantic.Field(1, ge=1)\n"
        "    _seen: int = pydantic.PrivateAttr(default=4)\n"
        "    @pydantic.computed_field\n    @property\n    def double(self) -> int: return self.n * 2\n"
        "    @pydantic.model_validator(mode='after')\n    def check(self):\n        if self.n == 13: raise ValueError('unlucky')\n        return self\n"
        "Made = pydantic.create_model('Made', a=(int, 3))\n"
        "@inference_function\ndef f(req: Req) -> list:\n"
        "    return [req.pets.items[0].lives, type(req.pets.items[1]).__name__, req.double, req._seen, Made().a, req.model_dump()['double']]\n",
        [({"pets": {"items": [{"kind": "cat"}, {"kind": "dog"}]}, "n": 2}, [9, "Dog", 4, 4, 3, 4])],
    ),
    "structs_more": Shape(
        "import msgspec\nfrom typing import Generic, TypeVar, Union\n"
        "T = TypeVar('T')\n"
        "class Pair(msgspec.Struct, Generic[T], array_like=True):\n    a: T\n    b: T\n"
        "class Get(msgspec.Struct, tag='get'):\n    key: str\nclass Put(msgspec.Struct, tag='put', frozen=True):\n    key: str\n    val: int = 0\n"
        "class Base(msgspec.Struct, tag=str.lower, tag_field='op'):\n    n: int\n    def __post_init__(self): self.n += 1\nclass Inc(Base): ...\n"
        "@inference_function\ndef f(op: Union[Get, Put], pair: Pair[int]) -> list:\n"
        "    return [type(op).__name__, op.key, pair.a + pair.b, msgspec.json.encode(Inc(1)).decode(), Put.__struct_config__.tag]\n",
        [({"op": {"type": "put", "key": "k"}, "pair": [1, 2]}, ["Put", "k", 3, '{"op":"inc","n":2}', "put"])],
    ),
    "state_in_functions": Shape(
        "def memo(n, cache={}):\n    cache.setdefault(n, len(cache))\n    return cache[n]\n"
        "def calls():\n    calls.n += 1\n    return calls.n\ncalls.n = 10\n"
        "tmp = 5\ndef later(): return kept\nkept = tmp + 1\ndel tmp\n"
        "class Model:\n    def __init__(self, k): self.k = k\n    def __call__(self, x): return x * self.k\nmodel = Model(3)\n"
        "@inference_function\ndef f(x: int) -> list: return [memo('a'), memo('b'), calls(), later(), model(x)]\n",
        [({"x": 2}, [0, 1, 11, 6, 6]), ({"x": 2}, [0, 1, 12, 6, 6])],
    ),
    "objects_that_answer_nothing": Shape(
        "class Odd:\n    def __init__(self, n): self.n = n\n"
        "    def __eq__(self, other): raise RuntimeError('asked')\n    __hash__ = object.__hash__\n"
        "    def __bool__(self): raise RuntimeError('asked')\n    def __len__(self): raise RuntimeError('asked')\n    def __repr__(self): raise RuntimeError('asked')\n"
        "import numpy as np\n"
        "ODD, ARR, HELD = Odd(3), np.arange(3), {'a': Odd(4), 'b': np.ones(2)}\n"
        "@inference_function\ndef f(x: int) -> list: return [ODD.n, int(ARR[x]), HELD['a'].n, float(HELD['b'].sum())]\n",
        [({"x": 1}, [3, 1, 4, 2.0])],
    ),
    "loggers": Shape(
        "import logging\nlog = logging.getLogger(__name__)\nother = logging.getLogger('mine.deep')\nadapter = logging.LoggerAdapter(log, {'a': 1})\n"
        "@inference_function\ndef f(x: int) -> list:\n    log.debug('x %s', x)\n    return [other.name, other is logging.getLogger('mine.deep'), adapter.extra['a']]\n",
        [({"x": 1}, ["mine.deep", True, 1])],
    ),
    "attrs_classes": Shape(
        "import attrs\n"
        "@attrs.define\nclass Req:\n    a: int\n    b: list = attrs.field(factory=list)\n    def total(self): return self.a + sum(self.b)\n"
        "@attrs.frozen(kw_only=True)\nclass Opt:\n    k: int = attrs.field(default=2, validator=attrs.validators.ge(1))\n    def __attrs_post_init__(self): pass\n"
        "OPT = Opt(k=3)\n"
        "@inference_function\ndef f(x: int) -> list: return [Req(x, [1]).total(), attrs.asdict(OPT), attrs.evolve(OPT, k=5).k, [i.name for i in attrs.fields(Req)]]\n",
        [({"x": 2}, [3, {"k": 3}, 5, ["a", "b"]])],
    ),
    "async_generators": Shape(
        "import asyncio, contextlib\n"
        "async def numbers(n):\n    for i in range(n):\n        await asyncio.sleep(0)\n        yield i\n"
        "@contextlib.asynccontextmanager\nasync def held(x):\n    yield x * 2\n"
        "class Client:\n    async def get(self, x): return x + 1\n    async def __aenter__(self): return self\n    async def __aexit__(self, *a): ...\n"
        "@inference_function\nasync def f(n: int) -> list:\n"
        "    async with held(n) as h, Client() as c: return [[i async for i in numbers(n)], h, await c.get(n)]\n",
        [({"n": 2}, [[0, 1], 4, 3])],
    ),
}
