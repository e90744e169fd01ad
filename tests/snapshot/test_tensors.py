import copy
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import snapshot
from snapshot import tensors

Roundtrip = Callable[[Any], Any]

DTYPES = sorted(
    {
        dtype
        for dtype in vars(torch).values()
        if isinstance(dtype, torch.dtype) and not str(dtype).startswith(("torch.q", "torch.complex32"))
    },
    key=str,
)


def same_bytes(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bytes(one.untyped_storage()) == bytes(other.untyped_storage())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_comes_back_as_itself(roundtrip: Roundtrip, dtype: torch.dtype) -> None:
    tensor = torch.arange(96, dtype=torch.uint8).view(dtype).view(3, -1)
    state = roundtrip({"tensor": tensor, "none": tensor[:, :0], "one": tensor[0, 0]})
    assert state["tensor"].dtype == state["none"].dtype == state["one"].dtype == dtype
    assert state["tensor"].shape == tensor.shape
    assert same_bytes(state["tensor"], tensor)
    assert state["none"].shape == (3, 0)
    assert state["one"].shape == ()


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_complex_halves_come_back_as_themselves(roundtrip: Roundtrip) -> None:
    tensor = torch.arange(96, dtype=torch.uint8).view(torch.complex32)
    back = roundtrip(tensor)
    assert back.dtype == torch.complex32
    assert same_bytes(back, tensor)


def test_types_that_the_format_knows_are_named_for_other_readers(tmp_path: Path) -> None:
    state = {"b": torch.ones(2, dtype=torch.bfloat16), "f8": torch.ones(2).to(torch.float8_e4m3fn), "c": torch.ones(2)}
    shard = snapshot.freeze(state, tmp_path / "s").shards[0]
    assert {tensor.name: tensor.dtype for tensor in shard.tensors} == {"b": "BF16", "f8": "F8_E4M3", "c": "F32"}


def test_st_01_tied_and_sliced(tmp_path: Path) -> None:
    weight = torch.randn(1000, 64)
    manifest = snapshot.freeze({"emb": weight, "head": weight, "half": weight[:500]}, tmp_path / "s")
    assert manifest.tensor_bytes == weight.nbytes
    assert manifest.shards[0].num_bytes < weight.nbytes + 4096
    back = snapshot.thaw(tmp_path / "s").state
    assert back["emb"] is back["head"]
    assert torch.equal(back["emb"], weight)
    assert torch.equal(back["half"], weight[:500])
    back["head"][0, 0] = 42.0
    assert back["emb"][0, 0] == back["half"][0, 0] == 42.0


def test_st_01_two_slices_of_one_buffer_share_what_they_shared(tmp_path: Path) -> None:
    buffer = torch.arange(1000.0)
    manifest = snapshot.freeze({"a": buffer[100:400], "b": buffer[300:600], "far": buffer[900:]}, tmp_path / "s")
    assert manifest.tensor_bytes == (500 + 100) * 4
    back = snapshot.thaw(tmp_path / "s").state
    assert all(torch.equal(back[key], part) for key, part in {"a": buffer[100:400], "b": buffer[300:600]}.items())
    back["a"][250] = -1
    assert back["b"][50] == -1
    assert back["a"].untyped_storage().data_ptr() == back["b"].untyped_storage().data_ptr()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.BatchNorm1d(8)])
        self.head = nn.Linear(8, 50, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("mask", torch.tril(torch.ones(4, 4, dtype=torch.bool)), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def test_a_module_answers_as_before_and_stays_tied(roundtrip: Roundtrip) -> None:
    module = Tied().eval()
    back = roundtrip(module)
    ids = torch.arange(6)
    assert torch.equal(back(ids), module(ids))
    assert back.head.weight is back.embedding.weight
    assert isinstance(back.head.weight, nn.Parameter)
    assert list(back.state_dict()) == list(module.state_dict())
    assert torch.equal(back.mask, module.mask)
    assert not back.training


def test_tensors_are_named_by_their_path_for_other_readers(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    module = Tied()
    manifest = snapshot.freeze({"model": module, "extra": [torch.zeros(3)]}, tmp_path / "s")
    theirs = load_file(tmp_path / "s" / manifest.shards[0].file)
    assert torch.equal(theirs["model.layers.0.weight"], module.layers[0].weight)
    assert torch.equal(theirs["extra.0"], torch.zeros(3))
    names = [tensor.name for tensor in manifest.shards[0].tensors]
    assert names.index("model.embedding.weight") < names.index("model.layers.0.weight") < names.index("extra.0")


def test_a_thawed_module_can_be_trained_saved_copied_and_frozen_again(tmp_path: Path) -> None:
    snapshot.freeze(Tied(), tmp_path / "first")
    module = snapshot.thaw(tmp_path / "first").state
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    before = module.layers[0].weight.detach().clone()
    module(torch.arange(6)).sum().backward()
    optimizer.step()
    assert not torch.equal(module.layers[0].weight, before)
    again = snapshot.thaw(tmp_path / "first").state
    assert torch.equal(again.layers[0].weight, before), "training reached the file"

    assert copy.deepcopy(module).head.weight is not module.head.weight
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    assert len(file.getvalue()) < 50_000, "saving a thawed tensor saves no more than the tensor"
    manifest = snapshot.freeze(module, tmp_path / "second")
    assert manifest.tensor_bytes == snapshot.read_manifest(tmp_path / "first").tensor_bytes
    assert torch.equal(snapshot.thaw(tmp_path / "second").state.head.weight, module.head.weight)


VIEWS = {
    "transposed": lambda t: t.T,
    "columns": lambda t: t[:, ::3],
    "rows": lambda t: t[3:7],
    "one row for many": lambda t: t[:1].expand(400, 40),
    "overlapping windows": lambda t: t.view(-1).unfold(0, 10, 3),
    "channels last": lambda t: t.view(2, 3, 10, 20).to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("case", VIEWS)
def test_any_strides_come_back_with_equal_values(tmp_path: Path, case: str) -> None:
    view = VIEWS[case](torch.randn(30, 40))
    manifest = snapshot.freeze([view], tmp_path / "s")
    [back] = snapshot.thaw(tmp_path / "s").state
    assert torch.equal(back, view)
    assert manifest.tensor_bytes <= min(view.numel(), 1200) * 4
    if view.is_contiguous(memory_format=torch.channels_last) if view.dim() == 4 else False:
        assert back.stride() == view.stride()


def test_gradients_flags_and_leaves(roundtrip: Roundtrip) -> None:
    leaf = torch.randn(3, requires_grad=True)
    frozen = nn.Parameter(torch.randn(3), requires_grad=False)
    back_leaf, derived, back_frozen = roundtrip([leaf, leaf * 2, frozen])
    assert back_leaf.requires_grad
    assert derived.requires_grad
    assert derived.is_leaf
    assert isinstance(back_frozen, nn.Parameter)
    assert not back_frozen.requires_grad


def test_attributes_of_parameters_come_back_and_may_refer_back(roundtrip: Roundtrip) -> None:
    parameter = nn.Parameter(torch.randn(3))
    parameter.owner = [parameter]
    module = nn.Linear(3, 3)
    module.bias = parameter
    back = roundtrip({"module": module, "same": parameter})
    assert back["same"] is back["module"].bias
    assert back["same"].owner[0] is back["same"]
    assert torch.equal(back["same"], parameter)


class Labelled(torch.Tensor):
    pass


BEYOND_STRIDED = {
    "sparse": lambda: torch.eye(50).to_sparse(),
    "subclass": lambda: torch.randn(500).as_subclass(Labelled),
    "conjugate": lambda: torch.randn(500, dtype=torch.complex64).conj(),
    "negative": lambda: torch.randn(500, dtype=torch.complex64).conj().imag,
}


@pytest.mark.parametrize("case", BEYOND_STRIDED)
def test_tensors_that_are_more_than_memory_keep_what_they_are(tmp_path: Path, case: str) -> None:
    tensor = BEYOND_STRIDED[case]()
    manifest = snapshot.freeze([tensor], tmp_path / "s")
    [back] = snapshot.thaw(tmp_path / "s").state
    assert type(back) is type(tensor)
    assert back.layout is tensor.layout
    assert torch.equal(back.detach().to_dense(), tensor.detach().to_dense())
    assert manifest.skeleton.num_bytes < 600, "its memory lies in a shard, not in the pickle"


def test_a_hook_of_the_backward_pass_is_not_lost_in_silence(tmp_path: Path) -> None:
    tensor = torch.randn(5, requires_grad=True)
    tensor.register_hook(abs)
    with pytest.warns(UserWarning, match="hook .* will not be serialized"):
        snapshot.freeze([tensor], tmp_path / "s")
    assert torch.equal(snapshot.thaw(tmp_path / "s").state[0], tensor)


def test_a_meta_tensor_has_no_memory_to_store(tmp_path: Path) -> None:
    assert snapshot.freeze([torch.empty(10**6, device="meta")], tmp_path / "s").shards == ()
    assert snapshot.thaw(tmp_path / "s").state[0].is_meta


def test_a_storage_and_the_tensors_in_it_share_memory_again(roundtrip: Roundtrip) -> None:
    tensor = torch.arange(10.0)
    storage, back = roundtrip([tensor.untyped_storage(), tensor])
    back[0] = 5
    assert storage.tolist()[:4] == list(bytes(torch.tensor(5.0).untyped_storage()))


def test_an_array_and_a_tensor_on_its_memory_share_it_again(roundtrip: Roundtrip) -> None:
    tensor = torch.arange(10.0)
    back, array = roundtrip([tensor, tensor.numpy()[3:]])
    array[0] = -1
    assert back[3] == -1


def test_memory_of_a_device_is_read_through_its_storage() -> None:
    tensor = torch.arange(10.0)
    address = tensor.data_ptr() + 8
    for holder in (tensor[5:], tensor.untyped_storage()):
        assert bytes(tensors.device_bytes(holder, address, 12)) == bytes(tensor[2:5].clone().untyped_storage())


def test_a_tensor_whose_memory_was_freed_is_refused_by_path(tmp_path: Path) -> None:
    tensor = torch.ones(5)
    tensor.untyped_storage().resize_(0)
    with pytest.raises(snapshot.Unfreezable, match=r"^state\['t'\]: the tensor has no memory"):
        snapshot.freeze({"t": tensor}, tmp_path / "s")


def test_a_module_that_torch_itself_refuses_is_refused_by_path(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        module = nn.Sequential(torch.jit.script(nn.Linear(3, 4)))
    with pytest.raises(snapshot.Unfreezable, match=r"^state\['net'\]\._modules\['0'\].*: .*serialize"):
        snapshot.freeze({"net": module}, tmp_path / "s")


def test_buffers_come_back_and_stay_out_of_the_state_dict_where_they_were(roundtrip: Roundtrip) -> None:
    module = nn.BatchNorm1d(4)
    module.register_buffer("scratch", torch.arange(3.0), persistent=False)
    module(torch.randn(8, 4))
    back = roundtrip(module)
    assert list(back.state_dict()) == list(module.state_dict())
    assert torch.equal(back.scratch, module.scratch)
    assert back.num_batches_tracked == 1
    assert torch.equal(back.running_mean, module.running_mean)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # of torch, of its own ways
@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16], ids=str)
def test_dynamically_quantised_modules_answer_as_before(roundtrip: Roundtrip, dtype: torch.dtype) -> None:
    module = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 4)), {nn.Linear}, dtype=dtype)
    x = torch.randn(3, 8)
    back = roundtrip(module)
    assert torch.equal(back(x), module(x))
    assert type(back[0]) is type(module[0])


class Scaled(torch.Tensor):
    """A tensor that wraps others, as quantisation libraries make them."""

    @staticmethod
    def __new__(cls, values: torch.Tensor, scale: torch.Tensor) -> "Scaled":
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=scale.dtype)

    def __init__(self, values: torch.Tensor, scale: torch.Tensor) -> None:
        self.values_, self.scale = values, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["values_", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: dict[str, torch.Tensor], _: None, *sizes: object) -> "Scaled":
        return cls(inner["values_"], inner["scale"])

    def full(self) -> torch.Tensor:
        return self.values_.to(self.scale.dtype) * self.scale

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return Scaled(args[0].values_, args[0].scale)
        full = [arg.full() if isinstance(arg, Scaled) else arg for arg in args]
        return func(*full, **(kwargs or {}))


def test_a_tensor_that_wraps_others_keeps_its_class_and_its_parts_are_mapped(tmp_path: Path) -> None:
    linear = nn.Linear(64, 32, bias=False)
    linear.weight = nn.Parameter(Scaled(torch.randint(-9, 9, (32, 64), dtype=torch.int8), torch.rand(32, 1)), False)
    manifest = snapshot.freeze(linear, tmp_path / "s")
    assert {tensor.dtype for shard in manifest.shards for tensor in shard.tensors} == {"I8", "F32"}
    back = snapshot.thaw(tmp_path / "s").state
    x = torch.randn(3, 64)
    assert isinstance(back.weight, Scaled)
    assert torch.equal(back(x), linear(x))
