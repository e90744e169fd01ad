"""MiniLM from zero on a real cluster, a service by itself: exported to ONNX, thawed as torch, and the plain way."""

from statistics import median

from benchmarks.area import Bench
from benchmarks.on_cluster import Answer, lacks, on_cluster
from benchmarks.rows import Bar, Row, at_most

SENTENCE = "a sentence"
CODE = """
from faas import Batching, Resources, Scaling, inference_function
from faas.spec import Snapshot
from handlers import embed


@inference_function(
    name="NAME",
    snapshot=Snapshot(FORM),
    batching=Batching(max_batch_size=32, wait_ms=5),
    scaling=Scaling(scaledown_window_s=6),
    resources=Resources(cpu=1, memory="1Gi"),
    warmup=["a sentence to warm up with"],
)
class Embed(embed.Embed.user):
    pass
"""
_WAYS = {  # by what they are called: the snapshot that the code asks for, how it travels, the bar
    "exported to ONNX": ('export="onnx"', "image", at_most(1.8)),
    "thawed as torch": ("", "image", None),
    "plain setup()": ("", "none", None),
}
_NUM_STARTS, _NUM_STARTS_QUICK = 5, 2


async def measure(bench: Bench) -> list[Row]:
    if lacks():
        return []
    rows = []
    for number, (what, (form, snapshot, bar)) in enumerate(_WAYS.items()):
        async with on_cluster(bench.home, f"start-{number}") as function:
            row, _ = await function.deploy(CODE.replace("FORM", form), "--snapshot", snapshot)
            starts = []
            for _ in range(bench.choose(_NUM_STARTS, _NUM_STARTS_QUICK)):
                await function.until_zero()
                starts.append(await function.call(row["url"], SENTENCE))
        rows += _rows(what, starts, bar)
    return rows


def _rows(what: str, starts: list[Answer], bar: Bar | None) -> list[Row]:
    if any(start.headers["x-cold-start"] != "1" for start in starts):
        raise RuntimeError(f"{what}: a call was answered by an instance that was there already")
    phases: dict[str, list[float]] = {}
    for start in starts:
        for part in start.headers["server-timing"].split(", "):
            name, _, ms = part.partition(";dur=")
            phases.setdefault(name, []).append(float(ms))
    return [
        Row(f"dedicated, {what}: from zero to the answer, p50", median(start.total_s for start in starts), "s", bar),
        *(Row(f"dedicated, {what}: {name}", median(found_ms), "ms") for name, found_ms in phases.items()),
    ]
