"""A 2 GB module from a warm page cache: thawed, copied the plain way, and mapped by hand."""

import asyncio
from statistics import median

from benchmarks.area import Bench
from benchmarks.rows import Row, at_least, at_most
from benchmarks.trials import Trial, bring_into_cache, files, same_answers, size_of, to_and_fro, trial

# The file or folder that each reads.
_WAYS = {
    "load_file and load_state_dict": "model.safetensors",
    "map and assign by hand": "model.safetensors",
    "thaw": "snapshot",
}
_AT_LEAST_OF_COPIED = 60.0
_AT_MOST_OF_BY_HAND = 1.15


async def measure(bench: Bench) -> list[Row]:
    size = size_of(bench)
    folder = await files(bench, size)
    found: dict[str, list[Trial]] = {way: [] for way in _WAYS}
    for way in _WAYS:
        await trial(way, folder, size)  # has what all ways import in the page cache too, and is not counted
    for way in to_and_fro(_WAYS, bench.choose(7, 3)):
        # What was not used for a while may have been paged out.
        await asyncio.to_thread(bring_into_cache, folder / _WAYS[way])
        found[way].append(await trial(way, folder, size))
    same_answers(one.logits for trials in found.values() for one in trials)
    return _rows(found)


def _rows(found: dict[str, list[Trial]]) -> list[Row]:
    load_ms = {way: median(one.load_ms for one in trials) for way, trials in found.items()}
    inference_ms = {way: median(one.inference_ms for one in trials) for way, trials in found.items()}
    copied, by_hand, thaw = _WAYS
    return [
        *(Row(f"warm: {way}, to usable, p50", ms, "ms") for way, ms in load_ms.items()),
        *(Row(f"warm: {way}, first inference after, p50", ms, "ms") for way, ms in inference_ms.items()),
        Row(f"warm: {copied} over {thaw}", load_ms[copied] / load_ms[thaw], "times", at_least(_AT_LEAST_OF_COPIED)),
        Row(
            f"warm: first inference after {thaw} over {by_hand}",
            inference_ms[thaw] / inference_ms[by_hand],
            "times",
            at_most(_AT_MOST_OF_BY_HAND),
        ),
    ]
