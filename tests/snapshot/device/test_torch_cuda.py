import pytest
import torch

from snapshot.device.torch_cuda import cuda_device, usable_bytes
from snapshot.errors import DeviceMissingError


@pytest.mark.parametrize(
    ("free", "kept", "share", "usable"),
    [
        (100, 0, 1000, 100),  # others have the rest
        (100, 50, 1000, 150),  # torch gives again what it kept
        (100, 0, 40, 40),  # the process is held to its share
        (100, 0, -5, 0),  # it was held to its share after it had taken more
        (900, 400, 1000, 1000),
    ],
)
def test_what_a_process_can_still_allocate(free: int, kept: int, share: int, usable: int) -> None:
    assert usable_bytes(free, 1000, kept=kept, share=share) == usable


def test_no_device_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(DeviceMissingError, match=r"to 'cuda:1', and no CUDA device is visible here"):
        cuda_device("cuda:1")
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(DeviceMissingError, match="this torch is built without CUDA; thaw to device 'cpu' instead"):
        cuda_device("cuda")


def test_fewer_devices_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [cuda_device(name).name for name in ("cuda", "cuda:1")] == ["cuda:0", "cuda:1"]
    with pytest.raises(DeviceMissingError, match="to 'cuda:2', and the devices here are cuda:0 to cuda:1"):
        cuda_device("cuda:2")
