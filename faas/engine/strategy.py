"""By what one engine decides, and what it learns from its batches."""

from __future__ import annotations

import logging
import math

import msgspec

from faas.engine import edf, fixed, in_time
from faas.engine.batch import Report
from faas.engine.cap import Cap
from faas.engine.concurrency import Concurrency
from faas.engine.latency_model import LatencyModel
from faas.engine.line import Line
from faas.engine.policy import IDLE, Decision, GiveUp, Outlook, Rules, Run, WaitUntil, decide
from faas.engine.queue import CallQueue

_log = logging.getLogger(__name__)


class Strategy:
    """The rules of an engine, what it knows of its batches and expects of its callers. It acts on nothing.

    `promise` is there where the rules have one; `latency` then holds quantiles, and else a line. `form` tells which
    calls may run together, where not all may. `ending`: nobody new comes.
    """

    def __init__(self, queue: CallQueue, rules: Rules, form: fixed.Form | None, latency: LatencyModel | None) -> None:
        self.rules = rules
        self.ending = False
        self.latency: LatencyModel | Line = Line()
        self.promise: in_time.Promise | None = None
        if rules.slo_s < math.inf:
            self.latency = known = latency or LatencyModel()
            self.promise = in_time.Promise(rules.slo_s, rules.max_batch_size, known)
        self._queue = queue
        self._form = form
        self._callers = Concurrency(rules.wait_s, rules.max_batch_size)
        self._outlook = Outlook(self._callers, self.latency)
        self._cap: Cap | None = None
        self._is_gathering = False

    def end(self) -> None:
        """Say that nobody new comes."""
        self.ending = True
        self._outlook = msgspec.structs.replace(self._outlook, ending=True)

    def decide(self, now: float) -> Decision:
        """Decide for a place that is free; where a batch runs after more was waited for, learn how many came."""
        decision = self._decision(now)
        if isinstance(decision, Run):
            if self._is_gathering:
                self._callers.gathered(len(self._queue), oldest_at=self._queue.oldest_at)
            self._is_gathering = False
        elif not isinstance(decision, GiveUp):
            self._is_gathering = isinstance(decision, WaitUntil)
        return decision

    def _decision(self, now: float) -> Decision:
        if self.promise is None:
            return self._decide_by_rule(now)
        if not len(self._queue):
            return IDLE
        return in_time.decide(len(self._queue), self.plan(now), lambda: self._decide_by_rule(now), now)

    def plan(self, now: float) -> edf.Batch | None:
        """Return what should run next where there is a promise; None: the next call is to be given up."""
        assert self.promise is not None
        return in_time.plan(self._queue, self.promise, self._callers.idle_since, now)

    def hopeless_at(self, *, is_busy: bool, surplus: float) -> float:
        """Return when the next call will have to be given up, whatever becomes free; infinity where nothing waits.

        Nobody is spared who came while the engine was busy. `surplus` is the share of arrivals that is more than
        batches can take. For engines with a promise.
        """
        assert self.promise is not None
        if not len(self._queue):
            return math.inf
        idle_since = math.inf if is_busy else self._callers.idle_since
        return in_time.hopeless_at(self._queue, self.promise, idle_since, surplus)

    def ended(self, num_items: int, report: Report, took_s: float, now: float) -> None:
        """Learn from a batch that ended; `took_s` is how long it held its place."""
        self._callers.ended(num_items, len(self._queue), now)
        if self.promise is not None and len(report.runs) == 1:  # the way to the thread and back is part of being late
            self.latency.observe(report.runs[0][0], took_s)
        else:
            for size, seconds in report.runs:
                self.latency.observe(size, seconds)
        if report.exhausted_at or self._cap is not None:
            self._learn_memory(report)

    def _decide_by_rule(self, now: float) -> Decision:
        if self.rules.idle == "wait" or self.rules.preferred:
            return fixed.decide(self._queue, self.rules, self._outlook, now, self._form)
        return decide(self._queue, self.rules, self._outlook, now)

    def _learn_memory(self, report: Report) -> None:
        """Take in for which sizes memory sufficed. Nothing is counted until it did not for one."""
        cap = self._cap = self._cap or Cap(self.rules.max_batch_size, self.rules.allowed)
        for size, _ in report.runs:
            cap.went_well(size)
        if report.exhausted_at:
            cap.exhausted(report.exhausted_at)
            _log.warning("memory ran out in a batch of %d; batches hold %d at most", report.exhausted_at, cap.limit)
        if cap.limit != self.rules.max_batch_size:
            self.rules = msgspec.structs.replace(self.rules, max_batch_size=cap.limit)
            if self.promise is not None:
                self.promise = msgspec.structs.replace(self.promise, max_batch_size=cap.limit)
