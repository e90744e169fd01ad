"""One run, from its settings to its report."""

import asyncio
from time import monotonic

from loadgen.loops import LEAD_S, drive
from loadgen.plan import ClosedLoop, OpenLoop, Plan
from loadgen.processes import drive_together
from loadgen.report import Report, summarize
from loadgen.workload import Workload


async def run(
    load: OpenLoop | ClosedLoop,
    workload: Workload,
    *,
    duration_s: float | None = None,
    num_requests: int | None = None,
    warmup_s: float = 0.0,
    processes: int = 1,
    timeout_s: float = 60.0,
    slo_ms: float | None = None,
    seed: int = 0,
    stop: asyncio.Event | None = None,
) -> Report:
    """Put `load` on the workload's URL and report.

    Nothing new is due after `duration_s` or `num_requests`, whichever comes first; what is in flight is waited for,
    each request for at most `timeout_s` after it was sent. With one of `processes` the run is on this event loop, with
    more it is shared among processes of their own. For `warmup_s` before, the same load is sent and not recorded; a
    request that is due in that time is not, whenever it ends. Setting `stop` ends the run at once: what is due or in
    flight counts as unfinished, and the report is of what there was. A cancelled run closes what it opened, and raises.

    Raises SettingError for a run that cannot be driven, WorkerError when a load process does not report.
    """
    plan = Plan(
        load=load,
        workload=workload,
        duration_s=duration_s,
        num_requests=num_requests,
        warmup_s=warmup_s,
        num_processes=processes,
        timeout_s=timeout_s,
        slo_ms=slo_ms,
        seed=seed,
    )
    stop = asyncio.Event() if stop is None else stop
    if processes == 1:
        recorder = await drive(plan, 0, monotonic() + LEAD_S, stop)
    else:
        recorder = await drive_together(plan, stop)
    return summarize(plan, recorder, stopped_early=stop.is_set())
