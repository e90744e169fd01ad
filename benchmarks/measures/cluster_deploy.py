"""A function deployed to a real cluster again: with its code changed, and with nothing changed."""

from statistics import median

from benchmarks.area import Bench
from benchmarks.on_cluster import lacks, on_cluster
from benchmarks.rows import Row, at_most

_CODE = """
from faas import Resources, Scaling, inference_function


@inference_function(name="NAME", scaling=Scaling(scaledown_window_s=6), resources=Resources(cpu=0.2, memory="256Mi"))
class Answer:
    def setup(self) -> None:
        self.answer = "ANSWER"

    def predict(self, name: str) -> str:
        return f"{self.answer}, {name}"
"""


async def measure(bench: Bench) -> list[Row]:
    if lacks():
        return []
    changed_s, ready_s = [], []
    async with on_cluster(bench.home, "deploy") as function:
        await function.deploy(_CODE.replace("ANSWER", "hello"))
        _, unchanged_s = await function.deploy(_CODE.replace("ANSWER", "hello"))
        for number in range(bench.choose(5, 2)):
            row, took_s = await function.deploy(_CODE.replace("ANSWER", f"hello {number}"))
            changed_s.append(took_s)
            ready_s.append(row["ready_s"])
    return [
        Row("deploy of a changed function to Ready, p50", median(changed_s), "s", at_most(8)),
        Row("of it, waiting for the cluster, p50", median(ready_s), "s"),
        Row("deploy of a changed function to Ready, the slowest", max(changed_s), "s"),
        Row("deploy of what has not changed", unchanged_s, "s"),
    ]
