"""A report as a person reads it, for a rich console; on anything but a terminal it is plain text."""

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table
from rich.text import Text

from loadgen.histogram import Summary
from loadgen.report import Report


def render(report: Report) -> Group:
    """Return what a console prints: the run, its outcomes, its distributions, and what to beware of."""
    lines = [*_headline(report), *_figures(report)]
    notes = [Text(f"warning: {warning}", style="yellow") for warning in report.warnings]
    notes += [Text(f"{num} times: {message}", style="red") for message, num in report.errors.items()]
    return Group(*(Text(line) for line in lines), _distributions(report), *notes)


def _headline(report: Report) -> Iterator[str]:
    asked = "" if report.target_per_s is None else f", {report.target_per_s:g}/s asked"
    warm_up = f" after {report.warmup_s:g} s of warm-up" if report.warmup_s else ""
    stopped = ", stopped early" if report.stopped_early else ""
    yield f"{report.mode} loop{asked}, {report.elapsed_s:.1f} s{warm_up}{stopped}"
    yield f"{report.num_offered} offered, {report.num_completed} completed, {report.completed_per_s:.1f}/s"
    yield ", ".join(f"{outcome} {num}" for outcome, num in report.outcomes.items() if num) or "nothing was sent"


def _figures(report: Report) -> Iterator[str]:
    if report.slo_attainment is not None:
        yield f"{report.slo_attainment:.2%} of all offered were ok within {report.slo_ms:g} ms of when they were due"
    if report.cold_fraction is not None:
        yield f"{report.num_cold} cold starts, {report.cold_fraction:.2%} of all offered"
    if report.mean_batch_size is not None:
        yield f"mean batch size {report.mean_batch_size:.1f}"
    if report.num_tokens:
        yield f"{report.num_tokens} tokens, {report.tokens_per_s:.1f}/s"
    if report.late_fraction:
        yield f"{report.late_fraction:.2%} sent late"


def _distributions(report: Report) -> Table:
    rows: list[tuple[str, Summary | None]] = [
        ("latency, from due", report.latency),
        ("service, from sent", report.service),
        ("to first token", report.ttft),
        ("per output token", report.tpot),
        ("latency, cold", report.cold_latency),
        ("latency, warm", report.warm_latency),
        *((f"latency, {name}", summary) for name, summary in report.latency_by_outcome.items() if name != "ok"),
        *((f"server, {name}", summary) for name, summary in report.phases.items()),
        ("client, late by", report.lateness),
    ]
    table = Table("milliseconds")
    for heading in ("number", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"):
        table.add_column(heading, justify="right")
    for name, summary in rows:
        if summary is not None:
            table.add_row(name, str(summary.num), *_cells(summary))
    return table


def _cells(summary: Summary) -> Iterator[str]:
    for value_ms in (
        *(summary.mean_ms, summary.p50_ms, summary.p90_ms, summary.p95_ms),
        *(summary.p99_ms, summary.p99_9_ms, summary.max_ms),
    ):
        yield f"{value_ms:.2f}" if value_ms < 100 else f"{value_ms:.0f}"
