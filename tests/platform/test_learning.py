"""What calls have imported, told by several instances at once: no zygote stays that nothing is forked from."""

import asyncio
from types import SimpleNamespace

from faas.platform.forking import environment
from faas.platform.learning import Learning
from faas.platform.zygotes import Zygotes
from faas.preparation import Origin, Preparation
from tests.platform.test_loop import description
from warmpool.errors import ZygoteStartError

OLD = Preparation(
    description=description(),
    origin=Origin(python="3", sources={}, distributions={}),
    siblings=("f",),
    imports=("json",),
)


class Pool:
    """Holds zygotes by their modules; they are warm once `ready` is set."""

    def __init__(self):
        self.held = {environment(OLD).modules}
        self.ready = asyncio.Event()
        self.broken = ()

    async def warm(self, wanted, *, buffer):
        self.held.add(wanted.modules)
        await self.ready.wait()
        if set(self.broken) & set(wanted.modules):
            raise ZygoteStartError("it cannot be started")
        return SimpleNamespace(hazard=None)

    async def retire(self, wanted, *, keep_workers):
        self.held.discard(wanted.modules)


class Loop:
    def __init__(self):
        self.preparation = OLD

    def adopt(self, preparation):
        self.preparation = preparation


async def learned(*told, broken=()):
    """Return what is run, held and reported once several instances of a revision have told what they have imported."""
    pool, loop, said = Pool(), Loop(), []
    pool.broken = broken
    zygotes = Zygotes(pool, lambda: [loop.preparation], said.append)
    workplace = SimpleNamespace(store=SimpleNamespace(read=lambda name: None), progress=said.append)
    learning = Learning(workplace, SimpleNamespace(get=lambda name: None), None, zygotes)
    for late in told:
        learning.learn(loop, late)
    await asyncio.sleep(0)
    pool.ready.set()
    while zygotes._changes:
        await asyncio.wait(zygotes._changes)
    return loop.preparation.imports, pool.held, said


async def test_what_several_instances_tell_at_once_leaves_one_zygote():
    assert await learned(["a"]) == (("json", "a"), {("json", "a")}, [])
    assert await learned(["a"], ["a"]) == (("json", "a"), {("json", "a")}, [])
    assert await learned(["a"], ["a", "b"], ["b"]) == (("json", "a"), {("json", "a")}, [])


async def test_a_zygote_that_cannot_have_it_is_reported_and_not_kept():
    imports, held, (said,) = await learned(["a"], broken=("a",))
    assert (imports, held) == (("json",), {("json",)})
    assert said == "f: the zygote with all that its calls import cannot be started: it cannot be started"
