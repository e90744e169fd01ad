import ctypes
import mmap

import pytest

from warmpool import hugepages

MB = 1024 * 1024
MAPS = """\
555500000000-555500100000 r-xp 00000000 08:01 12 /usr/bin/python3.11
555500200000-555500900000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
7f0000500000-7f00006ff000 rw-p 00000000 00:00 0
7f0000800000-7f0000c00000 rw-s 00000000 00:00 0
7f0001000000-7f0001400000 rw-p 00000000 08:01 99 /data/weights file.bin
7f0001400000-7f0001800000 r--p 00000000 00:00 0
7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0 [stack]
"""


def test_only_whole_huge_pages_of_private_anonymous_memory_are_candidates():
    assert hugepages.candidates(MAPS) == [
        *(0x555500200000 + number * 2 * MB for number in range(3)),
        0x7F0000000000,
        0x7F0000200000,
    ]


def test_a_collapsed_page_keeps_its_content():
    memory = mmap.mmap(-1, 6 * MB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = bytes(range(256)) * (6 * MB // 256)
    view = (ctypes.c_char * len(memory)).from_buffer(memory)
    start = ctypes.addressof(view)
    del view
    aligned = -(-start // hugepages.HUGE_PAGE_BYTES) * hugepages.HUGE_PAGE_BYTES
    if not hugepages.collapse(aligned):
        pytest.skip("this kernel has no MADV_COLLAPSE or no huge page to give")
    assert huge_bytes(aligned) >= hugepages.HUGE_PAGE_BYTES
    assert memory[:] == bytes(range(256)) * (6 * MB // 256)
    memory.close()


def huge_bytes(address: int) -> int:
    """Return how much of the mapping at an address lies in huge pages."""
    inside = False
    with open("/proc/self/smaps") as smaps:
        for line in smaps:
            first, _, rest = line.partition("-")
            if rest and " " in rest and all(digit in "0123456789abcdef" for digit in first):
                inside = int(first, 16) <= address < int(rest.split()[0], 16)
            elif inside and line.startswith("AnonHugePages:"):
                return int(line.split()[1]) * 1024
    return 0


def test_what_is_not_mapped_is_left_alone():
    assert hugepages.collapse(0) is False
