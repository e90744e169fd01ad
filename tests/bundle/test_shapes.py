"""Every shape of users' code, packed as a file and as cells of a notebook, loaded in a clean interpreter."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from tests.bundle.conftest import HERE, answers, run, said
from tests.bundle.more_shapes import MORE
from tests.bundle.shapes import AID, HEAD
from tests.bundle.shapes import SHAPES as FIRST

SHAPES = {**FIRST, **MORE}


def source_of(text: str) -> str:
    """Put the import of the decorator after imports from the future."""
    future = "from __future__ import annotations\n"
    return future + HEAD + text.removeprefix(future) if text.startswith(future) else HEAD + text


@pytest.fixture(scope="module")
def trip(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of packing and calling all of them; their project is gone when they are loaded."""
    folder = tmp_path_factory.mktemp("shapes")
    project, bundles = folder / "project", folder / "bundles"
    for path, text in AID.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    sources = {name: source_of(shape.source) for name, shape in SHAPES.items()}
    (project / "shapes.json").write_text(json.dumps(sources))
    failed = said(run(str(HERE / "packing.py"), str(project), str(bundles)))
    shutil.rmtree(project)
    calls = {f"{kind}-{name}": [body for body, _ in shape.calls] for name, shape in SHAPES.items() for kind in KINDS}
    return {**answers(bundles, {name: bodies for name, bodies in calls.items() if name not in failed}), **failed}


KINDS = ("file", "cell")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_answers_in_a_clean_interpreter(trip: dict[str, Any], name: str, kind: str) -> None:
    assert trip[f"{kind}-{name}"] == [answer for _, answer in SHAPES[name].calls]
