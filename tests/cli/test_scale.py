from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.responses import Response

from tests.cli.conftest import Faas
from tests.cli.platform import always, controlled, refusal
from tests.served import Seen


def test_scale_asks_for_a_number_and_says_what_there_is(faas: Faas, home: Path) -> None:
    with controlled(home, always({"name": "my-embed", "instances": 2, "ready": 1})) as platform:
        outcome = faas("scale", "MyEmbed", "2")
        assert outcome.code == 0
        assert faas("scale", "my_embed", "2").out == outcome.out == "my-embed: 1 of 2 ready\n"
    assert [s.path for s in platform.seen] == ["/functions/myembed/scale", "/functions/my-embed/scale"]
    assert json.loads(platform.seen[0].body) == {"instances": 2}


def test_more_than_the_most_is_told(faas: Faas, home: Path) -> None:
    with controlled(home, always({"name": "embed", "instances": 3, "ready": 0, "wanted": 99, "most": 3})):
        outcome = faas("scale", "embed", "99")
        assert faas("scale", "embed", "3").err == ""
    assert (outcome.code, outcome.out) == (0, "embed: 0 of 3 ready\n")
    assert outcome.err == "embed has at most 3, as its max_instances says: not 99\n"


def test_why_not_all_are_ready_is_told(faas: Faas, home: Path) -> None:
    answer = {"name": "embed", "instances": 1, "ready": 1, "wanted": 2, "most": 3, "short": "RuntimeError: no model"}
    with controlled(home, always(answer)):
        outcome = faas("scale", "embed", "2")
    assert (outcome.code, outcome.out) == (1, "embed: 1 of 1 ready\n")
    assert outcome.err == "error: not all are ready: RuntimeError: no model\nnext:  faas logs embed says more\n"


def test_an_unknown_function_is_a_wrong_call(faas: Faas, home: Path) -> None:
    async def answer(_: Seen) -> Response:
        return refusal(404, "no function 'x' here")

    with controlled(home, answer):
        outcome = faas("scale", "x", "0")
    assert outcome.code == 2
    assert outcome.err == "error: no function 'x' here\nnext:  faas list shows the functions that are served\n"


@pytest.mark.parametrize("args", [("x", "-1"), ("x", "many"), ("x",), ("///", "1")])
def test_a_wrong_number_or_name_is_a_wrong_call(faas: Faas, args: tuple[str, ...]) -> None:
    assert faas("scale", *args).code == 2
