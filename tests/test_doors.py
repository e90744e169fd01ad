"""The endpoints of a class, called from Python."""

import pytest
from starlette.responses import JSONResponse

from faas import Batching, endpoint, inference_function, variant
from faas.spec import Selection
from tests.served import serving


@inference_function(batching=Batching(max_batch_size=4))
class Ledger:
    def setup(self) -> None:
        self.entries = []

    def predict(self, amount: list[int]) -> list[int]:
        self.entries += amount
        return [sum(self.entries)] * len(amount)

    @endpoint("/times")
    def times(self, x: list[int], by: list[int]) -> list[int]:
        """Multiply."""
        self.entries += [0]
        return [a * b for a, b in zip(x, by, strict=True)]

    @endpoint("/size")
    def size(self) -> list[int]:
        return [len(self.entries)]


def test_each_endpoint_is_called_here_by_its_method_on_one_handler():
    ledger = Ledger.with_options()
    assert ledger(5) == 5
    assert ledger.times(3, by=4) == 12
    assert ledger.times.local(3, 4) == 12
    assert ledger.size() == 3
    assert ledger.predict(1) == 6
    assert ledger.times.__doc__ == "Multiply."
    assert repr(ledger.times).startswith("<endpoint /times of <faas function 'ledger'")


def test_what_does_not_fit_an_endpoint_is_told_by_it():
    with pytest.raises(TypeError, match="needs 'by'"):
        Ledger.times(3)


def test_with_a_handler_of_ones_own_it_is_the_plain_method():
    handler = Ledger.user()
    handler.setup()
    assert Ledger.times(handler, [1, 2], [3, 4]) == [3, 8]


def test_each_endpoint_is_called_where_it_is_served(monkeypatch):
    async def answer(seen):
        return JSONResponse(7)

    with serving(answer) as served:
        monkeypatch.setenv("FAAS_URL", served.url)
        monkeypatch.delenv("FAAS_PLATFORM_SOCKET", raising=False)
        assert Ledger.times.remote(3, 4) == 7
        assert Ledger.size.spawn().get(10) == 7
        assert Ledger.remote(1) == 7
    assert [seen.path for seen in served.seen] == ["/f/ledger/times", "/f/ledger/size", "/f/ledger/"]
    assert served.seen[0].body == b'{"x":3,"by":4}'


def test_an_endpoint_is_pickled_by_its_name():
    rebuild, parts = Ledger.times.__reduce__()
    assert rebuild(*parts).local(2, 2) == 4


def test_a_variant_is_no_endpoint():
    @inference_function(selection=Selection(policy="exp3"))
    class Either:
        @variant
        def one(self, x: int) -> int:
            return 1

        @variant
        def other(self, x: int) -> int:
            return 2

    assert Either.one(Either.user(), 0) == 1
