from pathlib import Path

from snapshot.free_memory import available_bytes, of_group, of_machine

MEMINFO = "MemTotal:       24684208 kB\nMemFree:          812340 kB\nMemAvailable:    1000000 kB\n"
STAT = "anon 700\nfile 250\ninactive_file 100\nactive_file 50\nslab_reclaimable 25\n"


def test_what_the_machine_can_give() -> None:
    assert of_machine(MEMINFO) == 1_024_000_000


def test_what_a_group_can_give() -> None:
    assert of_group("1000\n", "900\n", STAT, otherwise=7) == 275
    assert of_group("1000\n", "1300\n", STAT, otherwise=7) == 0
    assert of_group("max\n", "900\n", STAT, otherwise=7) == 7


def test_the_tightest_group_above_counts(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(MEMINFO)
    assert available_bytes(proc, groups) == 1_024_000_000
    (proc / "self" / "cgroup").write_text("1:cpu:/x\n0::/outer/inner\n")
    assert available_bytes(proc, groups) == 1_024_000_000
    for folder, limit in (("outer/inner", "max"), ("outer", "1000")):
        (groups / folder).mkdir(parents=True, exist_ok=True)
        (groups / folder / "memory.max").write_text(limit)
        (groups / folder / "memory.current").write_text("900")
        (groups / folder / "memory.stat").write_text(STAT)
    assert available_bytes(proc, groups) == 275


def test_this_machine_has_some() -> None:
    assert available_bytes() > 0
