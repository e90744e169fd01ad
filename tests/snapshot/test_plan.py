from math import prod

import pytest

from snapshot.format import FILLER_PREFIX
from snapshot.plan import Plan, Source, plan


def source(
    address: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
    *,
    item: int = 4,
    stored: str = "F32",
    device: str = "cpu",
) -> Source:
    if strides is None:
        strides = tuple(item * prod(shape[i + 1 :]) for i in range(len(shape)))
    return Source("numpy", stored.lower(), stored, item, shape, strides, address, device)


def planned(*sources: Source, shard_bytes: int = 1 << 20) -> Plan:
    return plan(sources, [f"n{i}" for i in range(len(sources))], shard_bytes=shard_bytes)


def only_stored(made: Plan):
    [shard] = made.shards
    [stored] = shard
    return stored


def test_a_tensor_in_c_order_is_stored_as_it_is() -> None:
    made = planned(source(4096, (2, 3)))
    stored = only_stored(made)
    assert (stored.placement.dtype, stored.placement.shape, stored.placement.num_bytes) == ("F32", (2, 3), 24)
    assert (stored.address, stored.lead, stored.compacted) == (4096, 0, False)
    assert (made.views[0].start, made.views[0].strides) == (0, None)


def test_another_order_is_stored_flat_so_that_no_reader_takes_it_for_a_matrix() -> None:
    made = planned(source(4096, (3, 3), (4, 12)))
    assert only_stored(made).placement.shape == (9,)
    assert made.views[0].strides == (4, 12)


def test_a_slice_with_gaps_is_compacted() -> None:
    made = planned(source(4096, (3, 2), (16, 8)))
    stored = only_stored(made)
    assert stored.compacted
    assert (stored.placement.shape, stored.placement.num_bytes) == ((3, 2), 24)
    assert made.views[0].strides is None


def test_a_repeated_row_is_stored_once() -> None:
    made = planned(source(4096, (1000, 8), (0, 4)))
    assert only_stored(made).placement.num_bytes == 32
    assert made.views[0].strides == (0, 4)


def test_a_reversed_array_alone_is_compacted_from_its_first_element() -> None:
    stored = only_stored(planned(source(4096 + 36, (10,), (-4,))))
    assert stored.address == 4096
    assert stored.placement.shape == (40 // 4,)


def test_a_whole_names_and_shapes_what_its_parts_view() -> None:
    whole, half, column = source(4096, (10, 4)), source(4096, (5, 4)), source(4096 + 4, (10,), (16,))
    made = planned(half, whole, column)
    stored = only_stored(made)
    assert (stored.placement.name, stored.placement.shape) == ("n1", (10, 4))
    assert [view.start for view in made.views] == [0, 0, 4]
    assert made.views[2].strides == (16,)


def test_overlapping_parts_share_the_memory_between_them_and_no_more() -> None:
    made = planned(source(4096 + 40, (30,)), source(4096 + 100, (30,)))
    stored = only_stored(made)
    assert (stored.address, stored.placement.num_bytes) == (4096 + 40, 180)
    assert (stored.placement.dtype, stored.placement.shape) == ("F32", (45,))
    assert [view.start for view in made.views] == [0, 60]


def test_parts_that_overlap_through_a_third_are_one() -> None:
    made = planned(source(4096, (10,)), source(4096 + 80, (10,)), source(4096 + 36, (12,)))
    assert only_stored(made).placement.num_bytes == 120


def test_neighbours_and_other_devices_are_not_joined() -> None:
    made = planned(source(4096, (10,)), source(4136, (10,)), source(4100, (2,), device="cuda:0"))
    assert [len(tensor.members) for tensor in made.shards[0]] == [1, 1, 1]


def test_empty_tensors_stay_apart_and_break_nothing() -> None:
    made = planned(source(4096, (10,)), source(4100, (0, 3)), source(4100, (5,)), source(0, (0,)))
    assert [tensor.members for tensor in made.shards[0]] == [(0, 2), (1,), (3,)]
    assert made.shards[0][1].placement.shape == (0, 3)


def test_views_of_several_types_are_stored_as_bytes() -> None:
    made = planned(source(4096, (10,), item=4), source(4096 + 2, (30,), item=2, stored="F16"))
    placement = only_stored(made).placement
    assert (placement.dtype, placement.shape) == ("U8", (62,))


def test_a_type_without_a_name_in_the_format_is_stored_as_bytes() -> None:
    placement = only_stored(planned(source(4096, (2, 3), item=16, stored=""))).placement
    assert (placement.dtype, placement.shape) == ("U8", (96,))


def test_elements_keep_their_alignment_when_the_memory_begins_off_it() -> None:
    made = planned(source(4096 + 3, (40,), item=1, stored="U8"), source(4096 + 8, (4,)))
    stored = only_stored(made)
    assert stored.lead == 3
    assert stored.placement.num_bytes == 43
    assert [view.start for view in made.views] == [3, 8]


def test_tensors_lie_in_the_order_in_which_they_were_met() -> None:
    made = planned(source(9000, (4,)), source(4096, (4,)), source(6000, (4,)))
    assert [tensor.placement.name for tensor in made.shards[0]] == ["n0", "n1", "n2"]
    assert [view.tensor for view in made.views] == [0, 1, 2]


def test_shards_end_before_they_are_too_large() -> None:
    made = planned(*(source(4096 + i * 1000, (25,)) for i in range(5)), source(1 << 20, (1000,)), shard_bytes=250)
    assert [len(shard) for shard in made.shards] == [2, 2, 1, 1]
    assert [view.tensor for view in made.views] == list(range(6))


@pytest.mark.parametrize("names", [["w", "w", "w#2"], ["__metadata__", f"{FILLER_PREFIX}0", "w"]])
def test_names_are_made_distinct_and_safe(names: list[str]) -> None:
    made = plan([source(4096 * (i + 1), (4,)) for i in range(3)], names)
    given = [tensor.placement.name for tensor in made.shards[0]]
    assert len(set(given)) == 3
    assert not any(name == "__metadata__" or name.startswith(FILLER_PREFIX) for name in given)


def test_half_a_surrogate_pair_in_a_name_can_be_written_to_a_file() -> None:
    made = plan([source(4096, (4,)), source(8192, (4,))], ["\ud800", "\\ud800"])
    assert [tensor.placement.name for tensor in made.shards[0]] == ["\\ud800", "\\ud800#2"]


def test_nothing_to_store_makes_no_shard() -> None:
    assert plan([], []) == Plan((), ())


def test_many_names_alike_are_made_distinct_at_once() -> None:
    sources = [source(64 * number, (1,)) for number in range(50_000)]
    names = [view.name for view in plan(sources, ["<tuple>"] * len(sources)).views]
    assert names[:3] == ["<tuple>", "<tuple>#2", "<tuple>#3"]
    assert len(set(names)) == len(names)
