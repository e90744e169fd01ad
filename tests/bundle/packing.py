"""Run in a process of its own: packs every shape, as a file and as cells of a notebook. `packing.py SHAPES INTO`"""

import json
import linecache
import sys
import types
from pathlib import Path

from faas import bundle

home, into = Path(sys.argv[1]), Path(sys.argv[2])
shapes = json.loads((home / "shapes.json").read_text())
sys.path.insert(0, str(home))
failed = {}


def pack(name, target):
    try:
        bundle.make(target, into / name, verify=False, fresh=True)
    except Exception as error:
        failed[name] = f"{type(error).__name__}: {error}"


def in_cell(name, source):
    """Run a cell as a notebook does: in `__main__`, with its text where tracebacks look for it."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    filename = f"<ipython-input-{name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), main.__dict__)
    return main.f


real_main = sys.modules["__main__"]
for name, source in shapes.items():
    path = home / f"shape_{name}.py"
    path.write_text(source)
    pack(f"file-{name}", f"{path}:f")
for name, source in shapes.items():
    try:
        function = in_cell(name, source)
    finally:
        main, sys.modules["__main__"] = sys.modules["__main__"], real_main
    sys.modules["__main__"] = main
    pack(f"cell-{name}", function)
    sys.modules["__main__"] = real_main
print(json.dumps(failed))
