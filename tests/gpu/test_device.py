"""The real device under what `tests/snapshot/device` holds a fake one to."""

import gc
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import snapshot
from snapshot.device import load_files, load_module
from snapshot.device.layout import Span
from snapshot.device.schedule import BLOCK_BYTES, Ring
from snapshot.device.torch_cuda import cuda_device
from snapshot.device.transfer import Source, Transfer
from snapshot.errors import DeviceMemoryError, DeviceMissingError

pytestmark = pytest.mark.gpu

RING = Ring(3, 16 * BLOCK_BYTES, 4, 4 * BLOCK_BYTES)


def on_cpu(storage: Any) -> bytes:
    return bytes(torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage).cpu().numpy())


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    content = random.Random(3).randbytes(500 * BLOCK_BYTES + 77)
    (tmp_path / "file").write_bytes(content)
    return content


@pytest.mark.parametrize("direct", [False, True])
def test_bytes_arrive_through_a_ring_that_is_used_many_times(tmp_path: Path, content: bytes, direct: bool) -> None:
    spans = tuple(Span(begin, 60_000) for begin in range(0, len(content) - 60_000, 64_000))
    source = Source(tmp_path / "file", len(content), spans, direct)
    with Transfer(cuda_device("cuda"), [source, source], ring=RING) as transfer:
        for number in (0, 1):
            for index, span in enumerate(spans):
                assert on_cpu(transfer.part(number, index)) == content[span.begin : span.end]
        transfer.wait()


def test_a_load_that_is_given_up_leaves_no_memory(tmp_path: Path, content: bytes) -> None:
    before = torch.cuda.memory_allocated()
    source = Source(tmp_path / "file", len(content), (Span(0, len(content)),))
    for _ in range(20):
        Transfer(cuda_device("cuda"), [source], ring=RING).close()
        assert torch.cuda.memory_allocated() == before


def test_memory_goes_with_the_last_tensor(tmp_path: Path) -> None:
    save_file({"a": torch.ones(1_000_000), "b": torch.ones(10)}, tmp_path / "t.safetensors")
    before = torch.cuda.memory_allocated()
    loaded = load_files([tmp_path / "t.safetensors"], "cuda")
    assert torch.cuda.memory_allocated() >= before + 4_000_040
    del loaded["a"]
    assert torch.cuda.memory_allocated() > before
    del loaded["b"]
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_memory_that_running_work_still_uses_is_not_written_early(tmp_path: Path, content: bytes) -> None:
    source = Source(tmp_path / "file", len(content), (Span(0, len(content)),))
    torch.cuda.empty_cache()
    matrix = torch.randn(4096, 4096, device="cuda")
    used = torch.zeros(len(content), dtype=torch.uint8, device="cuda")
    for _ in range(20):
        matrix = (matrix @ matrix).clamp_(-1, 1)  # keeps the stream busy
    total = used.sum()  # not computed yet; the allocator may give this memory to the load already
    del used
    with Transfer(cuda_device("cuda"), [source], ring=RING) as transfer:
        part = transfer.part(0, 0)
        transfer.wait()
    assert int(total) == 0
    assert on_cpu(part) == content


def test_other_streams_may_use_a_tensor_at_once(tmp_path: Path) -> None:
    save_file({"t": torch.ones(20_000_000)}, tmp_path / "t.safetensors")
    tensor = load_files([tmp_path / "t.safetensors"], "cuda")["t"]
    with torch.cuda.stream(torch.cuda.Stream()):
        assert float(tensor.sum()) == 20_000_000


def test_files_are_as_safetensors_has_them(tmp_path: Path) -> None:
    expected = {f"t{number}": torch.randn(number, 33).to(torch.bfloat16) for number in range(50)}
    expected |= {
        "large": torch.randn(5_000_000),
        "none": torch.empty(0),
        "eight": torch.randn(9).to(torch.float8_e4m3fn),
    }
    save_file(expected, tmp_path / "t.safetensors")
    loaded = load_files([tmp_path / "t.safetensors"], "cuda")
    assert loaded.keys() == expected.keys()
    for name, tensor in expected.items():
        assert loaded[name].device == torch.device("cuda:0")
        assert torch.equal(loaded[name].cpu().view(-1).view(torch.uint8), tensor.view(-1).view(torch.uint8))


def test_a_module_comes_without_being_initialised(tmp_path: Path) -> None:
    net = torch.nn.Linear(300, 200)
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    loaded = load_module(lambda: torch.nn.Linear(300, 200), [tmp_path / "net.safetensors"], "cuda")
    x = torch.randn(5, 300)
    torch.testing.assert_close(loaded(x.cuda()).cpu(), net(x), atol=1e-2, rtol=1e-2)


def test_what_was_frozen_on_the_device_thaws_there(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)).cuda()
    net[1].weight = net[0].weight
    there, here = torch.arange(1000, device="cuda"), torch.arange(1000)
    snapshot.freeze({"net": net, "there": there, "slice": there[10:20], "here": here}, tmp_path / "s")
    state = snapshot.thaw(tmp_path / "s").state
    assert state["net"][0].weight is state["net"][1].weight
    assert (state["there"].device.type, state["here"].device.type) == ("cuda", "cpu")
    state["slice"][0] = -1
    assert int(state["there"][10]) == -1
    x = torch.randn(3, 64, device="cuda")
    assert torch.equal(state["net"](x), net(x))


def test_what_was_frozen_on_the_cpu_thaws_to_the_device_and_back(tmp_path: Path) -> None:
    net = torch.nn.Linear(64, 64)
    snapshot.freeze(net, tmp_path / "s")
    moved = snapshot.thaw(tmp_path / "s", device="cuda").state
    assert moved.weight.device == torch.device("cuda:0")
    snapshot.freeze(moved, tmp_path / "moved")
    assert torch.equal(snapshot.thaw(tmp_path / "moved", device="cpu").state.weight, net.weight)


def test_more_than_the_process_may_have(tmp_path: Path) -> None:
    save_file({"t": torch.zeros(64 << 20, dtype=torch.uint8)}, tmp_path / "t.safetensors")
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_allocated() + (32 << 20)) / total)
    try:
        with pytest.raises(DeviceMemoryError, match="are free to this process") as raised:
            load_files([tmp_path / "t.safetensors"], "cuda")
        assert raised.value.num_bytes == 64 << 20
        assert raised.value.free_bytes is not None
        assert raised.value.free_bytes <= 32 << 20
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert int(load_files([tmp_path / "t.safetensors"], "cuda")["t"].sum()) == 0


def test_memory_that_cannot_be_allocated_is_told_with_its_size() -> None:
    with pytest.raises(DeviceMemoryError, match=r"cuda:0: cannot allocate \d+ bytes; \d+ of \d+ are free"):
        cuda_device("cuda").allocate(1 << 46)


def test_a_device_beyond_the_last() -> None:
    count = torch.cuda.device_count()
    with pytest.raises(DeviceMissingError, match=f"cuda:{count}"):
        cuda_device(f"cuda:{count}")
