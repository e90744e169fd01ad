"""Fork safety with the libraries that make it hard: torch, numpy, transformers, in one zygote."""

import asyncio
import os
import re

import pytest

from warmpool import cpu
from warmpool.client import Zygote
from warmpool.environment import Preload

pytestmark = pytest.mark.anyio

TWO = {"OMP_NUM_THREADS": "2"}


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
async def torch_zygote(environment):
    modules = ("torch", "numpy", "works_at_import", "entries")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            patch.delenv(name, raising=False)
        patch.setenv("TOKENIZERS_PARALLELISM", "true")
        zygote = await Zygote.start(environment(*modules))
    yield zygote
    await zygote.stop(stop_workers=True)


async def test_the_zygote_has_one_thread_and_no_hazard(torch_zygote):
    assert torch_zygote.failed == {}
    assert torch_zygote.hazard is None
    assert len(os.listdir(f"/proc/{torch_zygote.pid}/task")) == 1


async def test_onnxruntime_and_tokenizers_add_neither_a_thread_nor_a_hazard(start):
    zygote = await start("onnxruntime", "tokenizers", "uvicorn", "starlette.applications", "prometheus_client")
    assert (zygote.failed, zygote.hazard) == ({}, None)
    assert len(os.listdir(f"/proc/{zygote.pid}/task")) == 1


@pytest.mark.slow
async def test_transformers_add_neither_a_thread_nor_a_hazard(start):
    zygote = await start("transformers.models.bert.modeling_bert", "transformers.models.auto")
    assert (zygote.failed, zygote.hazard) == ({}, None)
    assert len(os.listdir(f"/proc/{zygote.pid}/task")) == 1


async def test_siblings_draw_differently_and_seeded_ones_alike(torch_zygote, run):
    draws = [(await run(torch_zygote.fork, "entries:randoms")).answer for _ in range(3)]
    parked = [await torch_zygote.park() for _ in range(2)]
    draws += [(await run(waiting.adopt, "entries:randoms")).answer for waiting in parked]
    for generator in zip(*draws, strict=True):
        assert len(set(generator)) == len(draws)
    first, second = [(await run(torch_zygote.fork, "entries:randoms", b"42")).answer for _ in range(2)]
    assert first == second
    assert first[0] == pytest.approx(0.6394267984578837)  # random.Random(42).random()


@pytest.mark.parametrize("num_rounds", [3, pytest.param(20, marks=pytest.mark.slow)])
async def test_fk_02_parallel_operations_in_children_never_hang(torch_zygote, run, num_rounds):
    """The parent has used torch and numpy when it was imported; in each round 3 children use two threads of each."""
    for _ in range(num_rounds):
        async with asyncio.timeout(5):
            children = await asyncio.gather(*(run(torch_zygote.fork, "entries:parallel", env=TWO) for _ in range(3)))
        assert [child.worker.how for child in children] == ["fork"] * 3
        assert [child.status for child in children] == [0] * 3
        assert all(child.answer >= 2 for child in children)  # there really were threads


async def test_fk_02_children_of_a_hot_zygote_that_has_computed_never_hang(torch_zygote, environment, run):
    """What a rehearsed answer leaves in a hot zygote: operators have run there, on one thread."""
    wanted = environment(*torch_zygote.environment.modules, preload=Preload(entry="preloads:compute"))
    hot = await Zygote.heir(torch_zygote, wanted)
    assert hot.hazard is None
    for _ in range(3):
        async with asyncio.timeout(20):
            children = await asyncio.gather(*(run(hot.fork, "entries:parallel", env=TWO) for _ in range(3)))
        assert [child.worker.how for child in children] == ["fork"] * 3
        assert all(child.answer >= 2 for child in children)
    draws = [(await run(hot.fork, "entries:randoms")).answer for _ in range(2)]
    assert all(first != second for first, second in zip(*draws, strict=True))
    await hot.stop()


@pytest.mark.slow
async def test_fk_02_a_zygote_with_an_openmp_pool_is_not_forked(start, run):
    zygote = await start("works_on_two_threads")
    assert re.search(r"has \d threads and must have 1; .* [(]since the import of works_on_two_threads", zygote.hazard)
    assert (await run(zygote.fork, "entries:echo", b"x")).worker.how == "exec"


async def test_or_04_thread_counts_are_the_share_of_the_quota(torch_zygote, run):
    for num_workers in (1, 2, 1000):
        share = cpu.read_threads_per_worker(cpu.find_quota_files(), num_workers)
        counts = (await run(torch_zygote.fork, "entries:thread_counts", num_workers=num_workers)).answer
        assert {name: counts[name] for name in ("torch", "openblas", "openmp")} == dict.fromkeys(
            ("torch", "openblas", "openmp"), share
        )
        assert counts["OMP_NUM_THREADS"] == counts["MKL_NUM_THREADS"] == counts["OPENBLAS_NUM_THREADS"] == str(share)


async def test_or_04_explicit_values_win(torch_zygote, run):
    counts = (await run(torch_zygote.fork, "entries:thread_counts", env={"OMP_NUM_THREADS": "3"})).answer
    assert (counts["torch"], counts["openblas"], counts["MKL_NUM_THREADS"]) == (3, 3, "3")
    assert counts["torch on another thread"] == 3
    assert counts["TOKENIZERS_PARALLELISM"] == "true"  # what the user had set comes back


@pytest.mark.parametrize("chosen", [1, 3])
async def test_or_04_what_code_gives_torch_when_it_is_loaded_wins_and_its_zygote_keeps_to_one(
    torch_zygote, environment, run, chosen
):
    preload = Preload(entry="preloads:choose_torch_threads", payload=b"%d" % chosen)
    modules = torch_zygote.environment.modules
    hot = await Zygote.heir(torch_zygote, environment(*modules, "preloads", preload=preload))
    try:
        assert (await run(hot.fork, "entries:thread_counts", env={"OMP_NUM_THREADS": "2"})).answer["torch"] == chosen
    finally:
        await hot.stop()


async def test_or_04_explicit_values_of_the_environment_win(environment, run):
    zygote = await Zygote.start(environment("numpy", env=(("OMP_NUM_THREADS", "3"),)))
    told = (await run(zygote.fork, "entries:describe")).answer["env"]
    await zygote.stop()
    assert told["OMP_NUM_THREADS"] == told["OPENBLAS_NUM_THREADS"] == "3"
    assert "TOKENIZERS_PARALLELISM" not in told
