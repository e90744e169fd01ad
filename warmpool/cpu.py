"""How many threads a worker may use: its share of the processors the kernel really grants.

threads = max(1, floor(min(quota, affinity) / workers)), where the quota is the tightest `cpu.max` (cgroup v2) or
`cpu.cfs_quota_us / cpu.cfs_period_us` (v1) of this process's control group and the groups above it.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

_PROC = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def threads_per_worker(quota_cpus: float | None, num_affinity: int, num_workers: int) -> int:
    """Return the threads of one of `num_workers` workers; a `quota_cpus` of None is no quota."""
    cpus = num_affinity if quota_cpus is None else min(quota_cpus, num_affinity)
    return max(1, int(cpus / num_workers))


def parse_v2(cpu_max: str) -> float | None:
    """Return the CPUs that the text of a `cpu.max` grants; None is no quota."""
    quota, period = cpu_max.split()
    return None if quota == "max" else int(quota) / int(period)


def parse_v1(quota_us: str, period_us: str) -> float | None:
    """Return the CPUs that the texts of `cpu.cfs_quota_us` and `cpu.cfs_period_us` grant; None is no quota."""
    return None if int(quota_us) <= 0 else int(quota_us) / int(period_us)


def read_quota_cpus(membership: Path = _PROC, mount: Path = _MOUNT) -> float | None:
    """Return this process's CPU quota, None when it has none or the control groups cannot be read."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    quotas = [quota for line in lines for quota in _quotas(line, mount)]
    return min(quotas, default=None)


def read_threads_per_worker(num_workers: int) -> int:
    """Return `threads_per_worker` for this process as it is placed now."""
    return threads_per_worker(read_quota_cpus(), len(os.sched_getaffinity(0)), num_workers)


def _quotas(line: str, mount: Path) -> Iterator[float]:
    _, controllers, path = line.split(":", 2)
    parse: Callable[..., float | None]
    if controllers == "":
        tops, files, parse = [mount], ("cpu.max",), parse_v2
    elif "cpu" in controllers.split(","):
        tops, files, parse = [mount / controllers, mount / "cpu"], ("cpu.cfs_quota_us", "cpu.cfs_period_us"), parse_v1
    else:
        return
    for group in [group for top in tops for group in _upwards(top, path)]:
        try:
            quota = parse(*[(group / file).read_text() for file in files])
        except (OSError, ValueError):  # no such group, or the root, which has no limits
            continue
        if quota is not None:
            yield quota


def _upwards(top: Path, path: str) -> Iterator[Path]:
    """Yield the group's folder and those above it. A container may see its host's path: what is missing is skipped."""
    group = top / path.strip("/")
    while group != top:
        yield group
        group = group.parent
    yield top
