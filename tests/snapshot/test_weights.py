import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import snapshot
from snapshot.errors import DigestMismatchError, SizeMismatchError, SnapshotNotFoundError
from snapshot.imports import import_model
from tests.snapshot.imports.folders import layers, values, write_config


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The snapshot of an imported model."""
    model = tmp_path / "model"
    model.mkdir()
    save_file(layers(), model / "model.safetensors")
    write_config(model, tie_word_embeddings=True)
    import_model(model, tmp_path / "snapshot")
    return tmp_path / "snapshot"


def test_an_imported_model_thaws_as_the_same_weights_that_open(folder: Path) -> None:
    thawed, opened = snapshot.thaw(folder).state, snapshot.open_weights(folder)
    assert type(thawed) is type(opened) is snapshot.Weights
    assert list(thawed) == list(opened)
    assert len(opened) == 6
    assert all(torch.equal(thawed[name], opened[name]) for name in opened)
    assert thawed.config == opened.config == {"model_type": "tiny", "tie_word_embeddings": True}
    assert thawed.folder == opened.folder
    assert thawed["lm_head.weight"].data_ptr() == thawed["model.embed_tokens.weight"].data_ptr()


def test_a_module_takes_weights_without_copying_them(folder: Path) -> None:
    weights = snapshot.open_weights(folder)
    module = torch.nn.Module()
    for name in weights:
        parts = name.split(".")
        place = module
        for part in parts[:-1]:
            if not hasattr(place, part):
                place.add_module(part, torch.nn.Module())
            place = getattr(place, part)
        place.register_parameter(parts[-1], torch.nn.Parameter(torch.empty(0)))
    with pytest.raises(RuntimeError, match="size mismatch"):  # shapes are compared, so give it the right ones
        module.load_state_dict(weights, assign=True)
    for name, parameter in module.named_parameters():
        parameter.data = torch.empty(weights[name].shape)
    module.load_state_dict(weights, assign=True)
    held = dict(module.named_parameters(remove_duplicate=False))
    assert all(held[name].data_ptr() == weights[name].data_ptr() for name in weights)


def test_writing_to_weights_changes_no_file(folder: Path) -> None:
    snapshot.open_weights(folder)["model.norm.weight"].fill_(0)
    snapshot.verify(folder)
    assert snapshot.open_weights(folder)["model.norm.weight"].any()


def test_no_skeleton_is_needed_or_read(folder: Path) -> None:
    (folder / "skeleton").chmod(0o644)
    (folder / "skeleton").write_bytes(b"no pickle")
    assert len(snapshot.open_weights(folder)) == 6


def test_the_skeleton_names_weights_and_nothing_else(folder: Path) -> None:
    met: list[tuple[str, str]] = []

    class Names(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            met.append((module, name))
            return super().find_class(module, name)

        def persistent_load(self, reference: int | str) -> object:
            return Path(reference) if isinstance(reference, str) else torch.empty(0)

    with open(folder / "skeleton", "rb") as file:
        Names(file).load()
    assert met == [("snapshot.weights", "Weights")]


def test_the_tensors_of_any_snapshot_open_by_name(tmp_path: Path) -> None:
    module = torch.nn.Linear(3, 2)
    array = np.arange(6.0).reshape(2, 3)
    snapshot.freeze({"model": module, "array": array, "shared": module.weight}, tmp_path / "any")
    weights = snapshot.open_weights(tmp_path / "any")
    assert torch.equal(weights["model.weight"], module.weight)
    assert torch.equal(weights["model.bias"], module.bias)
    assert np.array_equal(weights["array"], array)
    assert weights.folder is None
    with pytest.raises(SnapshotNotFoundError, match=r"config\.json"):
        assert weights.config


def test_weights_in_a_state_are_frozen_with_their_files(
    folder: Path, tmp_path: Path, roundtrip: Callable[[Any], Any]
) -> None:
    weights = snapshot.open_weights(folder)
    back = roundtrip({"weights": weights, "n": 1})["weights"]
    assert list(back) == list(weights)
    assert all(torch.equal(back[name], weights[name]) for name in weights)
    assert back["lm_head.weight"].data_ptr() == back["model.embed_tokens.weight"].data_ptr()
    assert back.folder != weights.folder
    assert back.config == weights.config


def test_another_snapshot_than_was_asked_for_is_refused(folder: Path) -> None:
    digest = snapshot.read_manifest(folder).digest
    snapshot.open_weights(folder, expect_digest=digest)
    with pytest.raises(DigestMismatchError, match=digest):
        snapshot.open_weights(folder, expect_digest="0" * 64)


def test_a_shard_that_was_cut_short_is_refused(folder: Path) -> None:
    shard = next(folder.glob("*.safetensors"))
    shard.chmod(0o644)
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(SizeMismatchError):
        snapshot.open_weights(folder)


@pytest.mark.parametrize("load", ["map", "read"])
def test_every_load_mode_gives_the_same(folder: Path, load: snapshot.LoadMode) -> None:
    weights = snapshot.open_weights(folder, load=load, background=False)
    assert torch.equal(weights["model.norm.weight"], values(4, seed=101))


def test_weights_need_no_library_of_where_they_were_made(folder: Path) -> None:
    assert snapshot.read_manifest(folder).libraries == {}


def test_they_are_a_mapping_that_says_what_it_is(folder: Path) -> None:
    weights = snapshot.open_weights(folder)
    assert "6 tensors" in repr(weights)
    assert "nothing" not in weights
    with pytest.raises(KeyError):
        weights["nothing"]
