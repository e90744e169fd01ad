import os

import pytest

from warmpool import cpu

OR_04 = [
    # quota files, affinity, workers, threads
    ({"cpu.max": "200000 100000"}, 64, 1, 2),
    ({"cpu.max": "max 100000"}, 64, 1, 64),
    ({"cpu.max": "50000 100000"}, 64, 1, 1),
    ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, 64, 1, 64),
    ({"cpu.cfs_quota_us": "250000", "cpu.cfs_period_us": "100000"}, 64, 1, 2),
    ({"cpu.max": "200000 100000"}, 1, 1, 1),
    ({"cpu.max": "max 100000"}, 1, 1, 1),
    ({"cpu.max": "800000 100000"}, 64, 4, 2),
    ({"cpu.max": "800000 100000"}, 64, 16, 1),
    ({}, 8, 3, 2),
]


@pytest.mark.parametrize(("files", "num_affinity", "num_workers", "threads"), OR_04)
def test_or_04_threads_come_from_quota_affinity_and_workers(
    tmp_path, monkeypatch, files, num_affinity, num_workers, threads
):
    group = tmp_path if "cpu.max" in files else tmp_path / "cpu,cpuacct"
    group.mkdir(exist_ok=True)
    for name, text in files.items():
        (group / name).write_text(text + "\n")
    membership = tmp_path / "membership"
    membership.write_text("4:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(num_affinity)))
    found = cpu.find_quota_files(str(membership), str(tmp_path))
    assert cpu.read_threads_per_worker(found, num_workers) == threads


def test_the_tightest_group_on_the_way_up_decides(tmp_path):
    inner = tmp_path / "pod" / "container"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("max 100000\n")
    (inner.parent / "cpu.max").write_text("300000 100000\n")
    membership = tmp_path / "membership"
    membership.write_text("0::/pod/container\n")
    assert cpu.read_quota_cpus(cpu.find_quota_files(str(membership), str(tmp_path))) == 3


def test_a_container_that_sees_the_path_of_its_host_finds_its_own_files(tmp_path):
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    membership = tmp_path / "membership"
    membership.write_text("0::/kubepods/pod7/container9\n")
    assert cpu.read_quota_cpus(cpu.find_quota_files(str(membership), str(tmp_path))) == 1.5


def test_what_cannot_be_read_sets_no_quota(tmp_path):
    assert cpu.find_quota_files(str(tmp_path / "none"), str(tmp_path)) == []
    assert cpu.read_quota_cpus([(str(tmp_path / "gone"),)]) is None
    (tmp_path / "odd").write_text("a lot")
    assert cpu.read_quota_cpus([(str(tmp_path / "odd"),)]) is None
