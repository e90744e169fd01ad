"""kill -9 under load: service is back within two seconds, and only what was in flight on the victim fails, clearly."""

from benchmarks.area import Bench
from benchmarks.killing import Toll, kill_instances, kill_platforms, kill_zygotes
from benchmarks.rows import Row, at_most

_BACK_WITHIN_S = 2.0


async def measure(bench: Bench) -> list[Row]:
    num = bench.choose(50, 3)
    rows = []
    for what, kill in (("instance", kill_instances), ("zygote", kill_zygotes), ("platform", kill_platforms)):
        home = bench.home / f"kill-{what}"
        home.mkdir()
        rows += _rows(f"{num} kills of the {what}", await kill(home, num))
    return rows


def _rows(what: str, toll: Toll) -> list[Row]:
    return [
        Row(f"{what}: until it serves again, slowest", max(toll.back_s), "s", at_most(_BACK_WITHIN_S)),
        Row(f"{what}: until it serves again, median", sorted(toll.back_s)[len(toll.back_s) // 2], "s"),
        Row(f"{what}: calls", toll.num_calls),
        Row(f"{what}: calls that failed in flight", len(toll.failed) - len(toll.late)),
        Row(f"{what}: other calls that failed", len(toll.late), "", at_most(0)),
        Row(f"{what}: failed without saying why", len(toll.unclear), "", at_most(0)),
    ]
