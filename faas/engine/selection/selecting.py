"""The engine that learns from feedback which of its variants to believe."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from faas.clock import Clock, monotonic
from faas.engine import inputs, refusals
from faas.engine.selection import exp3, exp4
from faas.engine.selection.labels import label_of
from faas.engine.selection.learner import Learner
from faas.engine.selection.recent import Answered
from faas.engine.selection.several import Candidate, Counts, Several
from faas.errors import BadInput, DeadlineExceeded, DeadlineUnmeetable, HandlerError
from faas.messages import Call

_OUT_OF_TIME: Final = (DeadlineExceeded, DeadlineUnmeetable)
_MARGIN: Final = 0.05
_MAX_MARGIN_S: Final = 0.005
"""An answer that is put together at the last moment has to reach the caller, too."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """What the variants that were asked said until the cut: values or errors by name; `late` are the others."""

    values: Mapping[str, Any]
    errors: dict[str, BaseException]
    late: bool


class Selecting(Several):
    """See `Engine` for the contract. Under exp3 one variant is asked, drawn by its share; under exp4 all of them.

    Notes on each call `variant` (those whose answer it is, the heaviest first), under exp4 `confidence`, and `default`
    with the reason where the answer is the default: "deadline", "confidence" or "none" (there is no variant).

    An ensemble, or a function with a default, is not waited for longer than until the call's deadline, or `slo_s` after
    it came, less a margin: what is there by then is combined. Where nothing is, and there is no default, the first
    answer counts.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        learner: Learner,
        counts: Counts,
        *,
        slo_s: float = float("inf"),
        clock: Clock = monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(candidates, counts)
        self.learner = learner
        self._by_name = {candidate.name: candidate for candidate in candidates}
        self._selection = learner.selection
        self._slo_s = slo_s
        self._clock = clock
        self._random = random
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._ending = False

    async def start(self) -> None:
        """See `Engine`."""
        await super().start()
        await self.learner.sync()

    def submit(self, call: Call) -> None:
        """See `Engine`."""
        if self._ending:
            raise refusals.stopping()
        if call.done:
            return
        if self._selection.policy == "exp3" and not self._selection.has_default:
            self._give(call, self._drawn(call))
            return
        call.queued_at = self._clock()
        call.on_leave = self._left
        self._tasks[call] = asyncio.get_running_loop().create_task(self._serve(call))

    async def drain(self, grace_s: float) -> None:
        """See `Engine`."""
        self._ending = True
        await super().drain(grace_s)
        while self._tasks:
            await asyncio.wait(self._tasks.values())
        await self.learner.sync()

    async def close(self) -> None:
        """See `Engine`."""
        await self.drain(0)
        await super().close()

    def _drawn(self, call: Call) -> Candidate:
        context = self.learner.context_of(call.context.headers)
        shares = self.learner.shares(context)
        name = exp3.drawn(shares, self._random())
        self.learner.remember(call.context.request_id, Answered(context, name, shares[name]))
        return self._by_name[name]

    async def _serve(self, call: Call) -> None:
        try:
            if not self.candidates:
                self._default(call, "none")
            elif self._selection.policy == "exp3":
                await self._ask_one(call)
            else:
                await self._ask_all(call)
        except Exception as error:
            call.fail(error)
        finally:
            self._tasks.pop(call, None)

    async def _ask_one(self, call: Call) -> None:
        candidate = self._drawn(call)
        heard = await self._hear([candidate], call)
        if candidate.name in heard.values:
            call.note("variant", candidate.name)
            call.finish(heard.values[candidate.name])
        else:
            self._unanswered(call, heard)

    async def _ask_all(self, call: Call) -> None:
        context = self.learner.context_of(call.context.headers)
        heard = await self._hear(self.candidates, call)
        labels = _labels(heard)
        self.learner.remember(call.context.request_id, Answered(context, labels=labels))
        vote = exp4.vote(labels, self.learner.shares(context), len(self.candidates))
        if vote is None:
            self._unanswered(call, heard)
            return
        call.note("confidence", f"{vote.confidence:.3g}")
        if vote.confidence < self._selection.min_confidence:
            self._default(call, "confidence")
            return
        call.note("variant", ",".join(vote.winners))
        call.finish(heard.values[vote.winners[0]])

    async def _hear(self, asked: Sequence[Candidate], call: Call) -> _Heard:
        """Ask variants, and return what they said until the cut; the rest are left."""
        inner = {candidate.name: call.again() for candidate in asked}
        if len(inner) > 1:
            each = list(inner.values())
            kept = inputs.kept(each, ())
            if kept is not None:
                kept.restore(each)
        tasks = {
            candidate.name: asyncio.ensure_future(candidate.engine.answer(inner[candidate.name])) for candidate in asked
        }
        for candidate in asked:
            self._counts.variants[candidate.name] += 1
        try:
            done, _ = await asyncio.wait(tasks.values(), timeout=self._time_left_s(call))
            if not done and not self._selection.has_default:  # better late, as long as the caller allows
                await asyncio.wait(tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            values, errors = {}, {}
            for name, task in tasks.items():
                if task.done():
                    error = task.exception()
                    if error is None:
                        values[name] = task.result()
                    else:
                        errors[name] = error
            _tell(call, list(inner.values()), self._clock())
            return _Heard(values, errors, late=len(values) + len(errors) < len(tasks))
        finally:
            for task in tasks.values():  # not waited for: a handler may take its time to end
                task.cancel()
                task.add_done_callback(_seen)

    def _time_left_s(self, call: Call) -> float | None:
        allowed_s = min(call.deadline - call.queued_at, self._slo_s)
        if allowed_s == float("inf"):
            return None
        cut_at = call.queued_at + allowed_s - min(_MAX_MARGIN_S, _MARGIN * allowed_s)
        return max(0.0, cut_at - self._clock())

    def _unanswered(self, call: Call, heard: _Heard) -> None:
        """End a call that no variant answered: with the default where time ran out, else with what went wrong."""
        refused = next((error for error in heard.errors.values() if isinstance(error, BadInput)), None)
        in_time = next((error for error in heard.errors.values() if not isinstance(error, _OUT_OF_TIME)), None)
        late = heard.late or any(isinstance(error, _OUT_OF_TIME) for error in heard.errors.values())
        if refused is None and late and self._selection.has_default:
            self._default(call, "deadline")
        else:
            raise refused or in_time or next(iter(heard.errors.values()), None) or refusals.expired(call, self._clock())

    def _default(self, call: Call, reason: str) -> None:
        self._counts.defaults[reason] = self._counts.defaults.get(reason, 0) + 1
        call.note("default", reason)
        call.ended_at = call.ended_at or self._clock()
        call.finish(copy.deepcopy(self._selection.default))

    def _left(self, call: Call) -> None:
        task = self._tasks.pop(call, None)
        if task is not None:
            task.cancel()


def _labels(heard: _Heard) -> dict[str, bytes]:
    """Return the answers as what can be compared; one that is no JSON is its variant's error."""
    labels = {}
    for name, value in heard.values.items():
        try:
            labels[name] = label_of(value)
        except HandlerError as error:
            heard.errors[name] = error
    return labels


def _seen(task: asyncio.Task[Any]) -> None:
    """Take note of how a task ended that nobody waits for."""
    if not task.cancelled():
        task.exception()


def _tell(call: Call, inner: Sequence[Call], now: float) -> None:
    """Write on a call what it saw of its variants: from when the first began to when the last was heard.

    Where answers are kept, it is a hit if all of them were.
    """
    begun = [one for one in inner if one.started_at]
    if begun:
        call.picked_at = min(one.picked_at for one in begun)
        call.started_at = min(one.started_at for one in begun)
        call.batch_size = max(one.batch_size for one in begun)
    call.ended_at = now
    hits = [one.notes["cache"] == "hit" for one in inner if one.notes is not None and "cache" in one.notes]
    if hits:
        call.note("cache", "hit" if all(hits) else "miss")
