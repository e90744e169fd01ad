"""How many threads a worker may use: its share of the processors the kernel really grants.

threads = max(1, floor(min(quota, affinity) / workers)), where the quota is the tightest `cpu.max` (cgroup v2) or
`cpu.cfs_quota_us / cpu.cfs_period_us` (v1) of this process's control group and the groups above it.
"""

import os
from collections.abc import Iterator, Sequence

QuotaFiles = list[tuple[str, ...]]
"""For each control group that may hold a quota, its files: `(cpu.max,)`, or `(cpu.cfs_quota_us, cpu.cfs_period_us)`."""


def threads_per_worker(quota_cpus: float | None, num_affinity: int, num_workers: int) -> int:
    """Return the threads of one of `num_workers` workers; a `quota_cpus` of None is no quota."""
    cpus = num_affinity if quota_cpus is None else min(quota_cpus, num_affinity)
    return max(1, int(cpus / num_workers))


def parse_quota(texts: Sequence[str]) -> float | None:
    """Return the CPUs that the texts of one group's files grant; None is no quota."""
    quota, period = texts if len(texts) == 2 else texts[0].split()
    return None if quota == "max" or int(quota) <= 0 else int(quota) / int(period)


def find_quota_files(membership: str = "/proc/self/cgroup", mount: str = "/sys/fs/cgroup") -> QuotaFiles:
    """Find the files that bound this process's CPU time; none when there are no control groups."""
    try:
        lines = _read(membership).splitlines()
    except OSError:
        return []
    return [files for line in lines for files in _files_of(line, mount)]


def read_quota_cpus(quota_files: QuotaFiles) -> float | None:
    """Return the tightest quota in the files now, None when there is none; a file that cannot be read sets none."""
    quotas = []
    for files in quota_files:
        try:
            quotas.append(parse_quota([_read(file) for file in files]))
        except (OSError, ValueError):
            continue
    return min((quota for quota in quotas if quota is not None), default=None)


def read_threads_per_worker(quota_files: QuotaFiles, num_workers: int) -> int:
    """Return `threads_per_worker` of this process as it is bound now."""
    return threads_per_worker(read_quota_cpus(quota_files), len(os.sched_getaffinity(0)), num_workers)


def _files_of(line: str, mount: str) -> Iterator[tuple[str, ...]]:
    """Yield the files of the group a line of /proc/self/cgroup names, and of the groups above it.

    A container may see the path its host knows it by; what is not there is passed over.
    """
    _, controllers, path = line.split(":", 2)
    names: tuple[str, ...]
    if controllers == "":
        top, names = mount, ("cpu.max",)
    elif "cpu" in controllers.split(","):
        top, names = os.path.join(mount, controllers), ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    else:
        return
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts), -1, -1):
        files = tuple(os.path.join(top, *parts[:depth], name) for name in names)
        if all(os.path.exists(file) for file in files):
            yield files


def _read(file: str) -> str:
    with open(file) as opened:
        return opened.read().strip()
