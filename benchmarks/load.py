"""Load on a server under measurement, and what it cost the server."""

from dataclasses import dataclass

import loadgen
from benchmarks.processes import Server


class UnansweredError(Exception):
    """Requests of a measurement were not answered with 200: its figures would mean nothing."""


@dataclass(frozen=True, slots=True)
class Load:
    """One run of load. `cpu_s` is what the server's processes used meanwhile."""

    report: loadgen.Report
    cpu_s: float

    @property
    def per_s(self) -> float:
        """Answers a second."""
        return self.report.ok_per_s

    @property
    def p50_ms(self) -> float:
        """The median latency."""
        assert self.report.latency is not None
        return self.report.latency.p50_ms


async def closed(server: Server, workload: loadgen.Workload, num_callers: int, duration_s: float) -> Load:
    """Have callers each send the next request once the last is answered. Raises UnansweredError."""
    before_s = server.cpu_s
    report = await loadgen.run(loadgen.ClosedLoop(num_callers=num_callers), workload, duration_s=duration_s)
    cpu_s = server.cpu_s - before_s
    if report.outcomes["ok"] != report.num_offered:
        raise UnansweredError(f"{server.name}: {report.outcomes}, statuses {report.statuses}: {report.errors}")
    return Load(report, cpu_s)
