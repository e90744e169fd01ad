"""The same module from the disk, to the first inference: thawed, and by everybody else's loaders."""

from importlib.metadata import PackageNotFoundError, version
from statistics import median

from benchmarks.area import Bench
from benchmarks.rows import Row, at_least
from benchmarks.trials import Trial, drop_from_cache, files, same_answers, size_of, to_and_fro, trial

# The file or folder that each reads, and the distribution that it needs beside torch and safetensors.
_WAYS = {
    "thaw": ("snapshot", None),
    "torch.load(mmap)": ("model.pt", None),
    "safetensors": ("model.safetensors", None),
    "fastsafetensors": ("model.safetensors", "fastsafetensors"),
    "runai-model-streamer": ("model.safetensors", "runai-model-streamer"),
    "tensorizer": ("model.tensors", "tensorizer"),
}


async def measure(bench: Bench) -> list[Row]:
    size = size_of(bench)
    folder = await files(bench, size)
    ways = {way: reads for way, (reads, needs) in _WAYS.items() if needs is None or _is_installed(needs)}
    found: dict[str, list[Trial]] = {way: [] for way in ways}
    for way in to_and_fro(ways, bench.choose(5, 3)):
        drop_from_cache(folder / ways[way])
        found[way].append(await trial(way, folder, size))
    same_answers(one.logits for trials in found.values() for one in trials)
    return _rows(found)


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def _rows(found: dict[str, list[Trial]]) -> list[Row]:
    total_ms = {way: median(one.total_ms for one in trials) for way, trials in found.items()}
    thaw_ms, fastest_ms = total_ms["thaw"], min(ms for way, ms in total_ms.items() if way != "thaw")
    left_out = [way for way in _WAYS if way not in found]
    return [
        *(Row(f"cold: {way}, to the first answer, p50", ms, "ms") for way, ms in total_ms.items()),
        *(
            [Row(f"cold: left out, since they are not installed: {', '.join(left_out)}", len(left_out))]
            if left_out
            else []
        ),
        Row("cold: the fastest of the others over thaw", fastest_ms / thaw_ms, "times", at_least(1.0)),
    ]
