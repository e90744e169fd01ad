import subprocess
import sys

from warmpool import holes

REPORT = b"""\
Small block threshold = 512, in 32 size classes.

class   size   num pools   blocks in use  avail blocks
-----   ----   ---------   -------------  ------------
    0     16           9            9100            89
    2     48         595          201964           336
   31    512          72            2201             0

# arenas allocated total           =                  129
           80 free PyDictObjects * 48 bytes each =                3,840
"""

PROGRAM = """
import gc, sys
made = [bytes(48) for _ in range(30_000)]
del made[::40]
gc.collect()
from warmpool import holes
if sys.argv[1] == "fill":
    holes.fill()
new = [bytes(48) for _ in range(500)]
print(len({id(one) // 4096 for one in new}))
print("still heard", file=sys.stderr)
"""
PAGES_OF_500 = 500 * 96 // 4096 + 1


def test_free_blocks_are_read_from_the_report_by_size():
    assert holes.free_blocks(REPORT) == {16: 89, 48: 336, 512: 0}
    assert holes.free_blocks(b"") == {}


def num_pages_of_new_objects(how):
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    assert done.stderr == "still heard\n"
    return int(done.stdout)


def test_new_objects_lie_together_once_the_holes_are_filled():
    assert num_pages_of_new_objects("leave") > 3 * PAGES_OF_500
    assert num_pages_of_new_objects("fill") <= PAGES_OF_500 + 2


def test_a_python_without_pools_is_left_as_it_is():
    program = "from warmpool import holes; holes.fill(); print(len(holes._fillers))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONMALLOC": "malloc"}
    )
    assert done.stdout == "0\n"
