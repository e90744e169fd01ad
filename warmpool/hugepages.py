"""Huge pages for a zygote's heap, so that a fork copies hundreds of page table entries and not tens of thousands.

A torch zygote forks in a third of the time. A worker that writes to a huge page copies 4 KiB of it, not all of it (the
kernel splits its mapping), so nobody pays in memory. Best effort: a kernel before 6.1 has no MADV_COLLAPSE.
"""

import ctypes

HUGE_PAGE_BYTES = 2 * 1024 * 1024
_MADV_COLLAPSE = 25
_WORTH_IT = 16

_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def collapse_heap() -> int:
    """Collapse all of this process's heap, 1 to 3 ms for each huge page; return how many there are now.

    A heap of a few megabytes forks fast as it is, and is left alone.
    """
    with open("/proc/self/maps") as maps:
        addresses = candidates(maps.read())
    return sum(map(collapse, addresses)) if len(addresses) >= _WORTH_IT else 0


def candidates(maps: str) -> list[int]:
    """Return the addresses of the whole huge pages inside private, writable, anonymous memory of a /proc/self/maps."""
    addresses: list[int] = []
    for line in maps.splitlines():
        span, access, _, _, _, *name = line.split(maxsplit=5)
        if access != "rw-p" or name not in ([], ["[heap]"]):
            continue
        start, end = (int(bound, 16) for bound in span.split("-"))
        first = -(-start // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
        addresses += range(first, end - HUGE_PAGE_BYTES + 1, HUGE_PAGE_BYTES)
    return addresses


def collapse(address: int) -> bool:
    """Make one huge page of what lies at `address`; return whether it became one."""
    return bool(_madvise(address, HUGE_PAGE_BYTES, _MADV_COLLAPSE) == 0)
