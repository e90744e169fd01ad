"""A small trace in the format of the Azure Functions invocation trace of 2021, made from published statistics, seeded.

The format is that of AzureFunctionsInvocationTrace2021.md in Azure/AzurePublicDataset: a CSV of `app`, `func`,
`end_timestamp` and `duration`, both in seconds, ordered by the end. The trace itself is in no package registry, and is
published without statistics. So they are those of the same service two years before, by Shahrad et al., "Serverless in
the Wild" (USENIX ATC 2020), as the notebook AzureFunctionsDataset2019-Trace_Analysis.md there draws them again:

- Calls of an application in a day, figure 5a: points of the cumulative distribution, log-linear in between.
  Applications that are called more than once a minute on average, 19 % of all, are left out: they are warm under any
  policy. So are those called less than once in the time of the trace, which cannot be anything but cold.
- Regularity, figure 6: the coefficient of variation of the times between the calls of an application. At 0, which 20 %
  have (timers), calls are exactly periodic; up to 1 the times between them are of a gamma distribution; beyond, of a
  hyperexponential one with balanced means, which comes in bursts.
- Durations, figure 7: averages of applications are log-normal (log mean -0.38, sigma 2.36), in seconds. Here all calls
  of an application take its average, of a minute at most, below which 97 % are.

What it leaves out: the daily tide, several functions in an application, and any relation between rate and regularity.

python -m benchmarks.traces FILE [--apps N] [--hours N] [--seed N]
"""

import argparse
import csv
import hashlib
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

DAY_S = 86_400.0
CALLS_A_DAY = ((1, 0.20), (10, 0.38), (24, 0.45), (48, 0.50), (96, 0.55), (288, 0.66), (1440, 0.81))
VARIATIONS = ((0.0, 0.20), (0.5, 0.44), (1.0, 0.57), (2.0, 0.72), (4.0, 0.86), (6.0, 0.90), (10.0, 0.95))
LOG_MEAN, LOG_SIGMA = -0.38, 2.36
LONGEST_S = 60.0


@dataclass(frozen=True)
class App:
    """One application: seconds between calls on average, their coefficient of variation, seconds that a call takes."""

    name: str
    mean_s: float
    variation: float
    duration_s: float


def apps(num: int, *, duration_s: float, seed: int) -> list[App]:
    """Return applications as the statistics have them, for a trace of that length."""
    rng = random.Random(seed)
    least = _share_below(CALLS_A_DAY, DAY_S / duration_s)
    found = []
    for number in range(num):
        calls = math.exp(_quantile([(math.log(n), share) for n, share in CALLS_A_DAY], rng.uniform(least, 0.81)))
        variation = _quantile(VARIATIONS, min(rng.random(), VARIATIONS[-1][1]))
        took_s = min(LONGEST_S, rng.lognormvariate(LOG_MEAN, LOG_SIGMA))
        name = hashlib.sha256(f"{seed} {number}".encode()).hexdigest()
        found.append(App(name, DAY_S / calls, variation, took_s))
    return found


def arrivals(app: App, *, duration_s: float, seed: int) -> Iterator[float]:
    """Yield when the calls of an application come, up to `duration_s`, in order."""
    rng = random.Random(f"{seed} {app.name}")
    at_s = rng.uniform(0, app.mean_s)
    while at_s < duration_s:
        yield at_s
        at_s += _gap_s(app, rng)


def _gap_s(app: App, rng: random.Random) -> float:
    squared = app.variation**2
    if squared == 0:
        return app.mean_s
    if squared <= 1:
        return rng.gammavariate(1 / squared, app.mean_s * squared)
    often = (1 + math.sqrt((squared - 1) / (squared + 1))) / 2  # with balanced means: each phase has half of the time
    share = often if rng.random() < often else 1 - often
    return rng.expovariate(2 * share / app.mean_s)


def _quantile(points: tuple[tuple[float, float], ...] | list[tuple[float, float]], share: float) -> float:
    """Return the value at `share` of a cumulative distribution that is given by points; the first's below it."""
    if share <= points[0][1]:
        return points[0][0]
    for (low, below), (high, above) in pairwise(points):
        if share <= above:
            return low + (high - low) * (share - below) / (above - below)
    return points[-1][0]


def _share_below(points: tuple[tuple[float, float], ...], value: float) -> float:
    for (low, below), (high, above) in pairwise(points):
        if value <= high:
            between = math.log(max(value, low) / low) / math.log(high / low)
            return below + (above - below) * between
    return points[-1][1]


def write(path: Path, *, num_apps: int, duration_s: float, seed: int) -> None:
    """Write a trace."""
    rows = [
        (at_s + app.duration_s, app)
        for app in apps(num_apps, duration_s=duration_s, seed=seed)
        for at_s in arrivals(app, duration_s=duration_s, seed=seed)
    ]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("app", "func", "end_timestamp", "duration"))
        for end_s, app in sorted(rows, key=lambda row: row[0]):
            writer.writerow((app.name, app.name[:16], end_s, app.duration_s))


def main() -> int:
    """Write a trace as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traces")
    parser.add_argument("file", type=Path)
    parser.add_argument("--apps", type=int, default=48)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--seed", type=int, default=2021)
    options = parser.parse_args()
    write(options.file, num_apps=options.apps, duration_s=options.hours * 3600, seed=options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
