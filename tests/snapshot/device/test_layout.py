from hypothesis import given
from hypothesis import strategies as st

from snapshot.device.layout import Extent, Place, Span, lay_out

FILES = st.lists(st.lists(st.builds(Span, st.integers(0, 400_000), st.integers(0, 90_000)), max_size=8), max_size=4)


def test_neighbours_go_along_with_the_bytes_between_them() -> None:
    layout = lay_out([[Span(640, 100), Span(768, 64), Span(832, 8)]])
    assert layout.extents == (Extent(0, 640, 200, 0),)
    assert layout.allocations == (200,)
    assert layout.places == ((Place(0, 0, 100, 100), Place(0, 128, 64, 192), Place(0, 192, 8, 200)),)


def test_what_lies_far_apart_is_carried_alone_and_stays_aligned() -> None:
    layout = lay_out([[Span(64, 100), Span(10_000_000, 50)], [Span(128, 7)]])
    assert layout.extents == (Extent(0, 64, 100, 0), Extent(0, 10_000_000, 50, 256), Extent(1, 128, 7, 0))
    assert layout.allocations == (306, 7)
    assert [place.arrives_bytes for places in layout.places for place in places] == [100, 150, 157]


def test_a_tensor_that_would_lie_crooked_begins_anew() -> None:
    layout = lay_out([[Span(9, 3), Span(12, 400)]])
    assert [place.at for place in layout.places[0]] == [0, 256]


def test_a_file_of_which_nothing_is_wanted_takes_nothing() -> None:
    assert lay_out([[], [Span(64, 0)]]).allocations == (0, 0)


@given(FILES)
def test_every_span_has_its_bytes_in_its_file_s_allocation(files: list[list[Span]]) -> None:
    layout = lay_out(files)
    arrived = 0
    taken: dict[int, int] = {}
    ends = []
    for extent in layout.extents:
        assert extent.at >= taken.get(extent.file, 0)
        assert extent.at % 256 == 0
        taken[extent.file] = extent.at + extent.num_bytes
        ends.append((extent, arrived := arrived + extent.num_bytes))
    for number, (spans, places) in enumerate(zip(files, layout.places, strict=True)):
        for span, place in zip(spans, places, strict=True):
            assert (place.file, place.num_bytes) == (number, span.num_bytes)
            assert place.at + place.num_bytes <= layout.allocations[number]
            assert any(
                extent.file == number
                and extent.begin <= span.begin
                and span.end <= extent.end
                and place.at - extent.at == span.begin - extent.begin
                and place.arrives_bytes == arrives - (extent.end - span.end)
                for extent, arrives in ends
            )
