import json
import os
import shutil
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file, save_model

import snapshot
from snapshot.errors import (
    BadHeaderError,
    DamagedError,
    ImportRefused,
    IndexMismatchError,
    MissingShardsError,
    SizeMismatchError,
    UnsupportedDtypeError,
)
from snapshot.imports import Imported, importing
from tests.snapshot.imports.folders import layers, three_shards, values, write_config, write_sharded

FIRST, SECOND, THIRD = (f"model-{n:05d}-of-00003.safetensors" for n in (1, 2, 3))
INDEX = "model.safetensors.index.json"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


def import_model(source: Path, **options: str) -> tuple[snapshot.Weights, Imported]:
    folder = source.parent / "snapshot"
    imported = importing.import_model(source, folder, **options)
    snapshot.verify(folder)
    return snapshot.open_weights(folder), imported


def refused(source: Path, error: type[snapshot.SnapshotError]) -> str:
    """What is said; nothing is left behind."""
    before = sorted(source.parent.iterdir())
    with pytest.raises(error) as raised:
        importing.import_model(source, source.parent / "snapshot")
    assert sorted(source.parent.iterdir()) == before
    return str(raised.value)


def test_a_sharded_folder_comes_back_whole(model: Path) -> None:
    tensors = three_shards(model)
    weights, imported = import_model(model)
    assert imported.format == "huggingface"
    assert imported.notes == ()
    assert dict(weights).keys() == {*tensors, "lm_head.weight"}
    assert all(torch.equal(weights[name], tensor) for name, tensor in tensors.items())
    assert weights.config["tie_word_embeddings"] is True


def test_tensors_lie_in_the_order_in_which_a_model_runs(model: Path) -> None:
    write_sharded(model, {FIRST: layers(count=12)})
    _, imported = import_model(model)
    names = [tensor.name for shard in imported.manifest.shards for tensor in shard.tensors]
    numbered = [f"model.layers.{n}.proj.weight" for n in range(12)]
    assert names == ["model.embed_tokens.weight", *numbered, "model.norm.weight"]


def test_a_tied_head_shares_its_memory(model: Path) -> None:
    three_shards(model)
    weights, imported = import_model(model)
    assert "lm_head.weight" not in {t.name for shard in imported.manifest.shards for t in shard.tensors}
    weights["lm_head.weight"][0, 0] = 7
    assert weights["model.embed_tokens.weight"][0, 0] == 7


def test_a_folder_that_does_not_say_that_it_is_tied_is_not(model: Path) -> None:
    save_file(layers(), model / "model.safetensors")
    write_config(model)
    assert "lm_head.weight" not in import_model(model)[0]


def test_every_type_of_tensor_stays_what_it_is(model: Path) -> None:
    tensors = {
        "bf16": values(3, 3, dtype=torch.bfloat16),
        "fp8": values(4, dtype=torch.float8_e4m3fn),
        "int": torch.arange(5),
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
    }
    save_file(tensors, model / "model.safetensors")
    weights, _ = import_model(model)
    for name, tensor in tensors.items():
        assert weights[name].dtype == tensor.dtype
        assert weights[name].shape == tensor.shape
        assert torch.equal(weights[name].view(-1).view(torch.uint8), tensor.view(-1).view(torch.uint8))


@pytest.mark.parametrize("gone", [[SECOND], [FIRST, SECOND, THIRD]])
def test_st_05_missing_shards_are_listed_before_weights_are_read(
    model: Path, gone: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    three_shards(model)
    for file in gone:
        (model / file).unlink()
    read: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *place: read.append(place[1]) or pread(*place))
    begun = time.monotonic()
    with pytest.raises(MissingShardsError) as raised:
        importing.import_model(model, model.parent / "snapshot")
    assert time.monotonic() - begun < 1  # the case's own bound
    assert list(raised.value.missing) == gone
    assert all(file in str(raised.value) for file in gone)
    assert not any(file in str(raised.value) for file in {FIRST, SECOND, THIRD} - set(gone))
    assert read == []


def test_a_shard_that_is_a_link_to_nowhere_is_missing(model: Path) -> None:
    three_shards(model)
    (model / SECOND).unlink()
    (model / SECOND).symlink_to("../../blobs/gone")
    assert f"{SECOND} (a link to nowhere)" in refused(model, MissingShardsError)


def test_st_06_a_tensor_that_is_listed_and_absent_is_named(model: Path) -> None:
    write_sharded(model, {FIRST: {"w": values(2)}, SECOND: {"v": values(2)}}, {"w": FIRST, "x": FIRST, "v": SECOND})
    assert "'x' in model-00001" in refused(model, IndexMismatchError)


def test_st_06_a_tensor_that_is_there_and_not_listed_is_named(model: Path) -> None:
    write_sharded(model, {FIRST: {"w": values(2)}, SECOND: {"v": values(2), "y": values(1)}}, {"w": FIRST, "v": SECOND})
    assert "'y' in model-00002" in refused(model, IndexMismatchError)


def test_a_tensor_in_another_shard_than_the_index_says_is_named_both_ways(model: Path) -> None:
    write_sharded(model, {FIRST: {"w": values(2)}, SECOND: {"v": values(2)}}, {"w": FIRST, "v": FIRST})
    with pytest.raises(IndexMismatchError) as raised:
        importing.import_model(model, model.parent / "snapshot")
    assert set(raised.value.tensors) == {"v"}
    assert "'v' in model-00001" in str(raised.value)


def test_a_tensor_that_two_shards_hold_is_named(model: Path) -> None:
    write_sharded(model, {FIRST: {"w": values(2)}, SECOND: {"w": values(2), "v": values(2)}}, {"w": FIRST, "v": SECOND})
    assert "'w' in model-00002" in refused(model, IndexMismatchError)


def test_st_06_a_stray_file_is_never_read(model: Path) -> None:
    write_sharded(model, {FIRST: {"w": values(2, seed=1)}, SECOND: {"v": values(2)}})
    (model / "model.safetensors").write_bytes(b"\xff" * 100)  # no reader could open it
    weights, imported = import_model(model)
    assert torch.equal(weights["w"], values(2, seed=1))
    assert any("model.safetensors" in note and "not read" in note for note in imported.notes)


@pytest.mark.parametrize("file", ["../other.safetensors", "/etc/passwd", "..", "sub/a.safetensors", ""])
def test_an_index_that_leaves_its_folder_is_refused(model: Path, file: str) -> None:
    write_sharded(model, {FIRST: {"w": values(2)}}, {"w": file})
    assert repr(file) in refused(model, DamagedError)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ('{"weight_map": {"w": "a.safetensors", "w": "b.safetensors"}}', "'w' twice"),
        ('{"weight_map": []}', "no weight_map"),
        ('{"weight_map": {"w": 3}}', "no weight_map"),
        ('{"weight_map": {}}', "no tensors"),
        ("[]", "expected an object"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("\xff", "not JSON"),
    ],
)
def test_an_index_that_is_none_is_refused(model: Path, index: str, said: str) -> None:
    (model / INDEX).write_bytes(index.encode("latin-1"))
    assert said in refused(model, DamagedError)


def test_a_shard_that_was_cut_short_is_refused_before_weights_are_read(model: Path) -> None:
    three_shards(model)
    content = (model / THIRD).read_bytes()
    (model / THIRD).write_bytes(content[:-5])
    message = refused(model, SizeMismatchError)
    assert THIRD in message


def test_a_header_that_claims_more_than_the_file_is_refused(model: Path) -> None:
    (model / "model.safetensors").write_bytes((2**62).to_bytes(8, "little") + b"{}      ")
    assert "4611686018427387904" in refused(model, BadHeaderError)


def test_sizes_that_do_not_add_up_are_said(model: Path) -> None:
    three_shards(model)
    index = json.loads((model / INDEX).read_text())
    (model / INDEX).write_text(json.dumps({**index, "metadata": {"total_size": 5}}))
    _, imported = import_model(model)
    assert any("says 5 bytes" in note for note in imported.notes)


def test_a_type_that_is_not_known_is_named(model: Path) -> None:
    header = json.dumps({"odd": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}}).encode()
    (model / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
    assert "'odd' is F4" in refused(model, UnsupportedDtypeError)


def test_a_folder_of_pickles_alone_says_what_to_do(model: Path) -> None:
    write_config(model)
    (model / "pytorch_model.bin").write_bytes(b"")
    assert f"faas snapshot import {model / 'pytorch_model.bin'}" in refused(model, ImportRefused)
    (model / "pytorch_model-2.bin").write_bytes(b"")
    assert "safetensors" in refused(model, ImportRefused)


def test_a_folder_without_weights_says_so(model: Path) -> None:
    assert "no weights" in refused(model, ImportRefused)
    (model / "m.gguf").write_bytes(b"GGUF")
    assert "m.gguf" in refused(model, ImportRefused)


def test_several_files_without_an_index_are_refused_by_name(model: Path) -> None:
    for file in ("a.safetensors", "b.safetensors"):
        save_file({"w": values(2)}, model / file)
    assert "a.safetensors, b.safetensors" in refused(model, ImportRefused)


def test_of_several_indexes_the_usual_or_the_named_one_counts(model: Path) -> None:
    write_sharded(model, {"fp16.safetensors": {"w": values(2, seed=5)}})
    (model / INDEX).rename(model / f"model.fp16{INDEX.removeprefix('model')}")
    write_sharded(model, {"bf16.safetensors": {"w": values(2, seed=6)}})
    (model / INDEX).rename(model / f"model.bf16{INDEX.removeprefix('model')}")
    assert f"faas snapshot import {model / 'model.bf16.safetensors.index.json'}" in refused(model, ImportRefused)
    weights, _ = import_model(model / "model.fp16.safetensors.index.json")
    assert torch.equal(weights["w"], values(2, seed=5))
    shutil.rmtree(model / "snapshot")
    write_sharded(model, {FIRST: {"w": values(2, seed=7)}})
    assert torch.equal(import_model(model)[0]["w"], values(2, seed=7))


def test_a_lone_shard_is_no_whole_model(model: Path) -> None:
    save_file(layers(), model / SECOND)
    assert "one of 3 shards" in refused(model, MissingShardsError)
    (model / SECOND).rename(model / "model-00001-of-00001.safetensors")
    assert len(import_model(model)[0]) == 5


def test_configuration_and_tokenizer_are_kept_and_code_is_not(model: Path) -> None:
    save_file(layers(), model / "model.safetensors")
    write_config(model)
    kept = {
        "tokenizer.json": b"{}", "vocab.txt": b"a", "tokenizer.model": b"\x00", "chat_template.jinja": b"x",
        "1_Pooling/config.json": b"{}",
    }  # fmt: skip
    (model / "1_Pooling").mkdir()
    (model / ".cache").mkdir()
    left = {"modeling_tiny.py": b"import os", ".cache/a.json": b"{}", "pytorch_model.bin": b"", "README.md": b""}
    for name, content in {**kept, **left}.items():
        (model / name).write_bytes(content)
    weights, imported = import_model(model)
    assert weights.folder is not None
    found = {p.relative_to(weights.folder).as_posix(): p.read_bytes() for p in weights.folder.rglob("*") if p.is_file()}
    assert found == {**kept, "config.json": (model / "config.json").read_bytes()}
    assert any("modeling_tiny.py" in note for note in imported.notes)


def test_the_hubs_cache_of_links_is_followed(tmp_path: Path) -> None:
    three_shards(tmp_path / "blobs")
    cached = tmp_path / "models--org--tiny" / "snapshots" / "0123"
    cached.mkdir(parents=True)
    for file in (tmp_path / "blobs").iterdir():
        (cached / file.name).symlink_to(file)
    weights, _ = import_model(cached)
    assert len(weights) == 6


def test_a_kept_file_that_is_a_link_to_nowhere_is_named(model: Path) -> None:
    save_file(layers(), model / "model.safetensors")
    (model / "tokenizer.json").symlink_to("gone.json")
    assert "gone.json" in refused(model, DamagedError)


def test_a_configuration_that_is_no_object_is_refused(model: Path) -> None:
    save_file(layers(), model / "model.safetensors")
    (model / "config.json").write_text("[1]")
    assert "config.json" in refused(model, DamagedError)


def test_one_file_is_imported_without_what_lies_beside_it(model: Path) -> None:
    save_file(layers(), model / "any.safetensors")
    write_config(model)
    weights, imported = import_model(model / "any.safetensors")
    assert imported.format == "safetensors"
    assert weights.folder is None
    assert len(weights) == 5


def test_an_index_stands_for_its_folder(model: Path) -> None:
    three_shards(model)
    weights, imported = import_model(model / INDEX)
    assert imported.format == "huggingface"
    assert weights.folder is not None


def test_another_type_is_converted_to_and_the_configuration_says_so(model: Path) -> None:
    tensors = three_shards(model)
    weights, _ = import_model(model, dtype="bf16")
    assert all(torch.equal(weights[name], tensor.to(torch.bfloat16)) for name, tensor in tensors.items())
    assert weights.config["torch_dtype"] == "bfloat16"
    assert weights.config["text"] == {"dtype": "bfloat16"}
    assert weights.config["model_type"] == "tiny"


def test_a_quantised_model_keeps_its_types(model: Path) -> None:
    save_file(layers(), model / "model.safetensors")
    write_config(model, quantization_config={"quant_method": "fp8"})
    with pytest.raises(ImportRefused, match="quantised"):
        importing.import_model(model, model.parent / "snapshot", dtype="fp16")
    assert len(import_model(model)[0]) == 5


def test_large_tensors_and_many_shards_are_written_in_pieces(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapshot.imports.incoming.PIECE_BYTES", 64)
    tensors = three_shards(model)
    told: list[tuple[int, int]] = []
    folder = model.parent / "pieces"
    imported = importing.import_model(
        model, folder, dtype="fp16", shard_bytes=80, progress=lambda *done: told.append(done)
    )
    weights = snapshot.open_weights(folder)
    assert len(imported.manifest.shards) > 1
    assert all(torch.equal(weights[name], tensor.half()) for name, tensor in tensors.items())
    assert told == sorted(told)
    assert told[-1] == (imported.manifest.tensor_bytes, imported.manifest.tensor_bytes)
    assert len(told) > len(tensors)


def test_a_file_that_shrinks_while_it_is_read_leaves_nothing(model: Path) -> None:
    tensors = {f"model.layers.{n}.w": values(5000, seed=n) for n in range(3)}
    save_file(tensors, model / "model.safetensors")

    def shrink(done: int, total: int) -> None:
        os.truncate(model / "model.safetensors", 30000)

    with pytest.raises(SizeMismatchError, match="cut short"):
        importing.import_model(model, model.parent / "snapshot", progress=shrink)
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_a_source_that_is_not_there_says_so(tmp_path: Path) -> None:
    assert "is not there" in refused(tmp_path / "nothing", ImportRefused)
    (tmp_path / "dead").symlink_to("nowhere")
    assert "link to nowhere" in refused(tmp_path / "dead", ImportRefused)
    (tmp_path / "notes.txt").write_text("hello")
    assert "no format" in refused(tmp_path / "notes.txt", ImportRefused)


def test_the_target_is_never_written_over(model: Path) -> None:
    three_shards(model)
    import_model(model)
    with pytest.raises(snapshot.SnapshotExistsError):
        importing.import_model(model, model.parent / "snapshot")
    shutil.rmtree(model.parent / "snapshot")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.pt")
    assert "is a pipe or a device" in refused(tmp_path / "model.pt", ImportRefused)


@pytest.mark.parametrize("spelt", ["[0.0, Infinity]", '[0.0, {"__float__": "Infinity"}]'])
@pytest.mark.parametrize("options", [{}, {"dtype": "bf16"}])
def test_a_configuration_with_infinite_numbers_comes_back(model: Path, spelt: str, options: dict[str, str]) -> None:
    save_file(layers(), model / "model.safetensors")
    (model / "config.json").write_text(f'{{"model_type": "mamba2", "time_step_limit": {spelt}, "__float__": "x"}}')
    weights, _ = import_model(model, **options)
    assert weights.config == {"model_type": "mamba2", "time_step_limit": [0.0, float("inf")], "__float__": "x"}


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(5, 3)
        self.head = torch.nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight


@pytest.mark.parametrize("source", ["model", "model/model.safetensors"])
def test_st_01_names_that_save_model_left_out_are_tied_again(model: Path, source: str) -> None:
    tied = Tied()
    save_model(tied, str(model / "model.safetensors"), metadata={"format": "pt", "note": "of a run"})
    weights, imported = import_model(model.parent / source)
    assert sorted(weights) == ["embedding.weight", "head.weight"]
    assert [len(shard.tensors) for shard in imported.manifest.shards] == [1]
    fresh = Tied()
    fresh.load_state_dict(weights, assign=True)
    assert torch.equal(fresh.head.weight, tied.head.weight)
    assert fresh.head.weight.data_ptr() == fresh.embedding.weight.data_ptr()


VARIANTS = [
    ("model.safetensors.index.fp16.json", "model-0000{}-of-00002.fp16.safetensors"),
    ("diffusion_pytorch_model.safetensors.fp16.index.json", "diffusion_pytorch_model.fp16-0000{}-of-00002.safetensors"),
]


@pytest.mark.parametrize(("index", "shard"), VARIANTS)
def test_a_variant_is_imported_where_it_is_all_there_is_or_is_named(model: Path, index: str, shard: str) -> None:
    write_sharded(model, {shard.format(1): {"a": values(2)}, shard.format(2): {"b": values(2, seed=1)}})
    (model / INDEX).rename(model / index)
    write_config(model)
    weights, imported = import_model(model)
    assert torch.equal(weights["b"], values(2, seed=1))
    assert [record.file for record in imported.manifest.files] == ["files/0/config.json"]
    shutil.rmtree(model.parent / "snapshot")
    (model / shard.format(2)).unlink()
    assert shard.format(2) in refused(model, MissingShardsError)
    save_file({"a": values(2, seed=7)}, model / "model.safetensors")
    weights, imported = import_model(model)
    assert torch.equal(weights["a"], values(2, seed=7))
    assert shard.format(1) in imported.notes[0]
    assert shard.format(2) in refused_again(model / index, MissingShardsError)


def refused_again(source: Path, error: type[snapshot.SnapshotError]) -> str:
    shutil.rmtree(source.parent.parent / "snapshot")
    with pytest.raises(error) as raised:
        importing.import_model(source, source.parent.parent / "snapshot")
    return str(raised.value)


def test_a_repository_of_the_hubs_cache_stands_for_its_main_branch(tmp_path: Path) -> None:
    repository = tmp_path / "models--org--tiny"
    for number, revision in enumerate(("aaaa", "bbbb")):
        (repository / "snapshots" / revision).mkdir(parents=True)
        save_file({"w": values(2, seed=number)}, repository / "snapshots" / revision / "model.safetensors")
    assert "it has: aaaa, bbbb; name the files to import" in refused(repository, ImportRefused)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("cccc")
    assert "has no cccc here" in refused(repository, ImportRefused)
    (repository / "refs" / "main").write_text("bbbb\n")
    assert torch.equal(import_model(repository)[0]["w"], values(2, seed=1))
    shutil.rmtree(tmp_path / "snapshot")
    shutil.rmtree(repository / "snapshots" / "bbbb")
    (repository / "refs" / "main").unlink()
    assert torch.equal(import_model(repository)[0]["w"], values(2, seed=0))
    shutil.rmtree(repository / "snapshots" / "aaaa")
    assert "it has none" in refused(repository, ImportRefused)


def test_a_name_with_more_digits_than_a_number_may_have_is_read(model: Path) -> None:
    names = [f"layer.{'1' * 5000}.w", f"layer.{'1' * 4999}.w", "layer.9.w"]
    save_file({name: values(1) for name in names}, model / "model.safetensors")
    assert list(import_model(model)[0]) == names[::-1]


@pytest.mark.parametrize("name", ["MODEL.SAFETENSORS", "pytorch_model.bin", "model.pt", "model.ckpt", "0f3a"])
def test_tensor_files_are_known_by_what_is_in_them_whatever_their_name(model: Path, name: str) -> None:
    save_file(layers(), model / name)
    weights, imported = import_model(model / name)
    assert imported.format == "safetensors"
    assert len(weights) == 5
