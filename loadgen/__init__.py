"""Load on any HTTP server: open and closed loops, timed from when each request was due.

report = await run(OpenLoop(rate_per_s=200), Workload.json(url, ["hello"]), duration_s=30, slo_ms=100)

`loadgen.render.render(report)` is the same for a console; a program takes `report.to_dict()`.
"""

from loadgen.driver import run
from loadgen.errors import LoadError, SettingError, WorkerError
from loadgen.histogram import Summary
from loadgen.interrupt import stop_on_interrupt
from loadgen.plan import ClosedLoop, OpenLoop
from loadgen.report import Report
from loadgen.sample import Outcome
from loadgen.workload import Workload

__all__ = [
    "ClosedLoop",
    "SettingError",
    "LoadError",
    "OpenLoop",
    "Outcome",
    "Report",
    "Summary",
    "WorkerError",
    "Workload",
    "run",
    "stop_on_interrupt",
]
