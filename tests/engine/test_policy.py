from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from faas.engine.policy import Decision, Idle, Outlook, Rules, Run, WaitUntil, decide
from faas.spec import Batching


@dataclass
class Queue:
    num: int
    oldest_at: float = 100.0
    earliest_due: float = math.inf

    def __len__(self) -> int:
        return self.num


@dataclass
class Callers:
    num: int
    idle_since: float = 0.0

    def expected(self, oldest_at: float) -> int:
        return self.num

    def gather_from(self, oldest_at: float) -> float:
        return max(oldest_at, self.idle_since)


@dataclass
class Line:
    alpha_s: float = 0.001
    beta_s: float = 0.010

    def seconds(self, size: int) -> float:
        return self.alpha_s * size + self.beta_s


def ask(queue: Queue, now: float, *, expected: int = 1, idle: str = "adaptive", **more: object) -> Decision:
    rules = Rules(8, 0.005, idle)  # type: ignore[arg-type]
    line, since = more.get("line", Line()), more.get("idle_since", 0.0)
    return decide(queue, rules, Outlook(Callers(expected, since), line, bool(more.get("ending"))), now)  # type: ignore[arg-type]


@pytest.mark.parametrize("idle", ["adaptive", "now", "wait"])
def test_an_empty_queue_is_idle_in_every_mode(idle: str) -> None:
    assert isinstance(ask(Queue(0), 100.0, idle=idle), Idle)


@pytest.mark.parametrize("idle", ["adaptive", "now", "wait"])
@pytest.mark.parametrize(("num", "runs"), [(8, 8), (9, 8), (500, 8)])
def test_a_full_batch_leaves_at_once_and_never_exceeds_the_limit(idle: str, num: int, runs: int) -> None:
    assert ask(Queue(num), 100.0, idle=idle, expected=32) == Run(runs)


@pytest.mark.parametrize("idle", ["adaptive", "wait"])
def test_nothing_is_gathered_when_nobody_new_comes(idle: str) -> None:
    assert ask(Queue(2), 100.0, idle=idle, expected=8, ending=True) == Run(2)


def test_now_never_gathers() -> None:
    assert ask(Queue(1), 100.0, idle="now", expected=8) == Run(1)


def test_wait_holds_until_the_oldest_has_waited_its_time() -> None:
    assert ask(Queue(7), 100.004, idle="wait") == WaitUntil(100.005)
    assert ask(Queue(7), 100.005, idle="wait") == Run(7)


def test_adaptive_a_lone_caller_never_waits() -> None:
    assert ask(Queue(1), 100.0) == Run(1)


def test_adaptive_leaves_once_everybody_expected_is_there() -> None:
    assert ask(Queue(3), 100.0, expected=4) == WaitUntil(100.005)
    assert ask(Queue(4), 100.0, expected=4) == Run(4)


def test_adaptive_gathers_while_it_pays_and_never_beyond_the_wait() -> None:
    short = Line(beta_s=0.002)
    assert ask(Queue(1), 100.0, expected=8, line=short) == WaitUntil(100.002)
    assert ask(Queue(1), 100.002, expected=8, line=short) == Run(1)
    assert ask(Queue(1), 100.0, expected=8, line=Line(beta_s=1.0)) == WaitUntil(100.005)
    assert ask(Queue(1), 100.0, expected=8, line=Line(beta_s=0.0)) == Run(1)


def test_adaptive_counts_from_where_the_callers_say() -> None:
    assert ask(Queue(1), 100.02, expected=8, idle_since=100.02) == WaitUntil(pytest.approx(100.025))  # type: ignore[arg-type]


@pytest.mark.parametrize("idle", ["adaptive", "wait"])
def test_an_item_in_danger_is_run_at_once(idle: str) -> None:
    line = Line(alpha_s=0.001, beta_s=0.010)
    in_time = Queue(2, earliest_due=100.0 + line.seconds(2) + 0.003)
    assert ask(in_time, 100.0, idle=idle, expected=8, line=line) == WaitUntil(pytest.approx(100.003))  # type: ignore[arg-type]
    assert ask(Queue(2, earliest_due=100.001), 100.0, idle=idle, expected=8, line=line) == Run(2)


def test_rules_come_from_the_batching() -> None:
    assert Rules.of(None) == Rules(1, 0.0, "now", math.inf)
    made = Rules.of(Batching(max_batch_size=4, wait_ms=2, slo_ms=50, idle="wait", preferred_batch_sizes=(2, 3)))
    assert made == Rules(4, 0.002, "wait", 0.05, (2, 3))
    assert Rules.of(Batching()).slo_s == math.inf
