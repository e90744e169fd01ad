"""What compiled code imports and looks for, read from it."""

from __future__ import annotations

import concurrent.futures
import os

import pytest

from faas.bundle import imports, names


def imported(source: str, package: str = "") -> list[str]:
    return list(imports.imported(compile(source, "x.py", "exec"), package))


@pytest.mark.parametrize(
    ("source", "package", "found"),
    [
        ("import a.b.c as d", "", ["a.b.c"]),
        ("from a.b import c, d", "", ["a.b", "a.b.c", "a.b.d"]),
        ("from a import *", "", ["a"]),
        ("from . import x", "p.q", ["p.q", "p.q.x"]),
        ("from ..r import x", "p.q", ["p.r", "p.r.x"]),
        ("from ...r import x", "p.q", []),
        ("from . import x", "", []),
        ("def f():\n    class C:\n        def g(self): return (lambda: __import__('late.one'))", "", ["late.one"]),
        ("async def f():\n    import late", "", ["late"]),
        ("import importlib\nimportlib.import_module('.x', 'ignored')", "p", ["importlib", "p.x", "ignored"]),
        ("__import__(f'plugins.{n}')", "", ["plugins.*"]),
        ("__import__(f'.plugins.{n}', p)", "p", ["p.plugins.*"]),
        ("__import__('a'.split('.')[0])", "p", ["a"]),
        ("text = 'a.b'", "", []),
        ("for m in iter_modules(__path__): import_module(f'{__name__}.{m.name}')", "p", ["p.*"]),
        ("for f in Path(__file__).parent.glob('*.py'): import_module(f'{__package__}.{f.stem}')", "p.q", ["p.q.*"]),
        ("import p\ndef find():\n    return [m for m in walk_packages(p.__path__)]", "", ["p", "p.**"]),
        ("HERE = Path(__file__)", "p", []),
    ],
)
def test_imports_are_read_wherever_they_stand(source, package, found):
    assert imported(source, package) == found


def test_the_names_that_code_may_look_for():
    code = compile("def f():\n    global G\n    G = H\n    return [I for _ in J]\nK = L\n", "x.py", "exec")
    assert {"G", "H", "I", "J", "L"} <= set(names.global_names(code))
    assert list(names.annotated_names({"a": "list[Node]", "b": int, "c": "no python at all"})) == ["list", "Node"]
    for code in (
        "lambda: concurrent.futures.wait",
        "lambda: getattr(getattr(concurrent, 'futures'), 'wait')",
        "operator.attrgetter('futures.wait')(concurrent)",
    ):
        assert "concurrent.futures" in names.submodules(compile(code, "x.py", "exec"), [concurrent, os, 3])
    assert names.submodules(compile("concurrent['futures']", "x.py", "exec"), [concurrent]) == []
