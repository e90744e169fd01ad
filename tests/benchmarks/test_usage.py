import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks import usage
from benchmarks.usage import Memory

ROLLUP = """\
55d0c0a00000-7ffd0f1f2000 ---p 00000000 00:00 0                          [rollup]
Rss:               12345 kB
Pss:                6000 kB
Pss_Dirty:          3000 kB
Pss_Anon:           2990 kB
Pss_File:           3000 kB
Pss_Shmem:            10 kB
Shared_Dirty:          8 kB
Private_Dirty:      2992 kB
"""
# Says that it and its child run, and waits for the end of its input.
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
child.stdin.close()
child.wait()
"""


def test_the_rollup_is_read_by_its_whole_names():
    expected = Memory(pss_bytes=6000 * 1024, private_dirty_bytes=2992 * 1024, unfiled_bytes=3000 * 1024)
    assert usage.parse_rollup(ROLLUP) == expected


def test_how_old_a_process_is() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as young:
        assert 0.0 <= usage.age_s(young.pid) < usage.age_s(os.getpid())
    assert usage.age_s(young.pid) == 0.0


def test_memory_adds_up():
    assert Memory(1, 2, 3) + Memory(10, 20, 30) == Memory(11, 22, 33)


@pytest.fixture
def parent() -> Iterator[tuple[int, int]]:
    """A process and its child, both waiting: their two process ids."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "BENCHMARKS_TEST": f"of {os.getpid()}"},
    )
    with process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())


def test_a_tree_is_a_process_with_all_its_descendants(parent):
    assert usage.tree(parent[0]) == list(parent)
    assert set(parent) < set(usage.tree(os.getpid()))


def test_processes_are_found_by_a_variable_they_were_started_with(parent):
    assert set(usage.with_variable("BENCHMARKS_TEST", f"of {os.getpid()}")) == set(parent)
    assert usage.with_variable("BENCHMARKS_TEST", "of nobody") == []


def test_what_processes_hold_is_counted(parent):
    held = usage.memory(parent)
    assert held.pss_bytes > held.private_dirty_bytes > 0
    assert usage.num_threads(parent) == 2
    assert usage.num_descriptors(parent) >= 6  # input, output and errors of each


def test_cpu_time_counts_what_a_process_and_its_ended_children_used():
    before_s = usage.cpu_s([os.getpid()])
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
    assert usage.cpu_s([os.getpid()]) - before_s > 0.1


def test_a_process_that_is_gone_uses_nothing():
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    assert usage.cpu_s([gone.pid]) == 0.0
    assert usage.memory([gone.pid]) == Memory()
    assert usage.tree(gone.pid) == [gone.pid]
