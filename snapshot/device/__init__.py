"""Tensors to a device, as fast as pinned memory allows.

    module = load_module(build, [path], "cuda")          built on meta while the bytes are on their way
    tensors = load_files([path], "cuda")

    layout      where tensors go in device memory               pure
    schedule    what is read and copied next                    pure
    transfer    reads and copies, behind the `Device` seam
    torch_cuda  the real device
    loading     the tensors of a snapshot, for `thaw`
    files       tensor files as they are

Importing this package imports no torch.
"""

from snapshot.device.files import load_files, load_module

__all__ = ["load_files", "load_module"]
