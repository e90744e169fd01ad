"""Run in a clean interpreter: loads bundles and calls their functions. `loading.py FOLDER CALLS`; answers as JSON."""

import asyncio
import json
import sys
import traceback
from pathlib import Path

from faas import bundle, codec
from faas.handler import Handler
from faas.local import call_one


def answer(handler, body):
    function = handler.function
    found = call_one(handler, function.main, function.main.signature.decode(json.dumps(body).encode()))
    if function.main.signature.kind == "async":
        found = asyncio.run(found)
    elif function.main.signature.kind == "generator":
        found = list(found)
    return json.loads(codec.encode(found))


folder, answers = Path(sys.argv[1]), {}
for name, bodies in json.loads(Path(sys.argv[2]).read_text()).items():
    try:
        handler = Handler(bundle.load(folder / name))
        handler.setup()
        handler.after_thaw()
        answers[name] = [answer(handler, body) for body in bodies]
    except Exception:
        answers[name] = traceback.format_exc()
print(json.dumps(answers))
