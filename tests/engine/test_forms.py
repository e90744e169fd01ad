"""What a batching asks of a signature, and a call in process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from faas import inference_function
from faas.errors import BadInput, SettingError
from faas.spec import Batching, Pad

from .test_ragged import mean


def test_a_call_in_process_takes_the_same_way() -> None:
    @inference_function(batching=Batching(rows=True))
    def tens(xs: list[int]) -> list[int]:
        return [x * 10 for x in xs]

    assert tens([1, 2, 3]) == [10, 20, 30]
    assert mean(np.array([2, 4])) == 3
    with pytest.raises(BadInput, match="at least one row"):
        tens([])


def test_what_does_not_suit_is_refused_at_import() -> None:
    with pytest.raises(SettingError, match=r"generator.*rows=True"):

        @inference_function(batching=Batching(rows=True))
        def stream(xs: list[int]) -> Any:
            yield xs

    with pytest.raises(SettingError, match=r"mask='maks'.*did you mean 'mask'"):

        @inference_function(batching=Batching(pad=Pad(mask="maks")))
        def misspelt(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
            return x

    with pytest.raises(SettingError, match=r"mask='mask'.*list\[str\].*list\[list\[bool\]\] or an array"):

        @inference_function(batching=Batching(pad=Pad(mask="mask")))
        def named(x: list[list[int]], mask: list[str]) -> list[int]:
            return [len(mask)]

    with pytest.raises(SettingError, match=r"lengths='n'.*list\[list\[int\]\].*list\[int\] or an array"):

        @inference_function(batching=Batching(pad=Pad(lengths="n")))
        def nested(x: list[list[int]], n: list[list[int]]) -> list[int]:
            return [len(n)]

    with pytest.raises(SettingError, match="list of lists of numbers"):

        @inference_function(batching=Batching(pad=0))
        def texts(x: list[str]) -> list[str]:
            return x

    with pytest.raises(SettingError, match="annotate it as a list"):

        @inference_function(batching=Batching(rows=True))
        def one(x: int) -> int:
            return x


def test_the_schema_is_that_of_what_a_caller_sends() -> None:
    @inference_function(batching=Batching(rows=True), warmup=[{"xs": [1, 2], "ys": [[1.0, 2.0], [3.0, 4.0]]}])
    def pairs(xs: list[int], ys: np.ndarray) -> list[int]:
        return xs

    signature = pairs.main.signature
    decoded = signature.decode(b'{"xs": [1], "ys": [[1, 2]]}')
    assert decoded["ys"].shape == (1, 2)
    assert signature.schemas()[1] == {"type": "array", "items": {"type": "integer"}}
    assert set(mean.main.signature.fields) == {"x"}
    assert mean.main.signature.decode(b"[1, 2, 3]")["x"].tolist() == [1, 2, 3]
