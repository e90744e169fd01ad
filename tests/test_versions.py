"""Where a function's versions are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import snapshot
from faas import Versions, inference_function
from faas.description import Description
from faas.errors import SettingError
from faas.preparation import Origin, Preparation
from faas.versions import at, folder_of, in_bundle, with_place
from snapshot import LocalStore


def prepared(folder: Path, spec: Versions | None = None, **more: Any) -> Preparation:
    class Embed:
        def setup(self) -> None: ...

        def predict(self, x: int) -> int:
            return x

    (folder / "app.py").write_text("")
    function = inference_function(name="embed", versions=spec)(Embed)
    return Preparation(
        description=Description.of(function, f"{folder / 'app.py'}:Embed"),
        origin=Origin(python="3.11.7", sources={}, distributions={}),
        siblings=("embed",),
        imports=(),
        **more,
    )


def test_a_function_has_versions_once_there_are_some_in_the_store(tmp_path: Path):
    made, store = prepared(tmp_path), LocalStore(tmp_path / "store")
    assert with_place(made, store.root).versions is None
    snapshot.freeze({"x": 1}, tmp_path / "made")
    stored = store.publish("embed", tmp_path / "made")
    assert with_place(made, store.root).versions is None
    store.number("embed", 1, stored.digest)
    assert with_place(made, store.root).versions == str(folder_of("embed", store.root))
    store.unnumber("embed", 1)
    assert with_place(made, store.root).versions is None


def test_a_function_has_versions_when_it_says_so(tmp_path: Path):
    store = tmp_path / "store"
    assert with_place(prepared(tmp_path, Versions()), store).versions == str(store / "embed" / "versions")
    assert with_place(prepared(tmp_path, Versions(source="models")), store).versions == str(tmp_path / "models")
    assert with_place(prepared(tmp_path, Versions(source="/models")), store).versions == "/models"
    address = "s3://bucket/models/embed"
    assert with_place(prepared(tmp_path, Versions(source=address)), store).versions == address
    assert at(address, tmp_path) == address


def test_versions_of_a_bundle_are_in_it_or_where_its_settings_say(tmp_path: Path):
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    made = prepared(tmp_path, Versions(), versions="/elsewhere")
    assert in_bundle(made, bundle).versions is None
    (bundle / "versions").mkdir()
    assert in_bundle(made, bundle).versions == str(bundle / "versions")
    named = prepared(tmp_path, Versions(source="s3://bucket/models/embed"))
    assert in_bundle(named, bundle).versions == "s3://bucket/models/embed"
    assert in_bundle(prepared(tmp_path, Versions(source="mine")), bundle).versions == str(bundle / "mine")


def test_versions_come_and_go_within_a_revision(tmp_path: Path):
    one = prepared(tmp_path, digest="1" * 64)
    other = msgspec.structs.replace(one, digest="2" * 64)
    assert one.revision != other.revision
    place = str(tmp_path / "versions")
    with_one, with_other = (msgspec.structs.replace(made, versions=place) for made in (one, other))
    assert with_one.revision == with_other.revision
    assert with_one.revision != one.revision


def test_what_cannot_have_versions_is_refused():
    with pytest.raises(SettingError, match="versions= needs a class"):
        inference_function(versions=Versions())(lambda x: x)
    with pytest.raises(SettingError, match='take snapshot="state"'):
        inference_function(versions=Versions(), snapshot="off")(type("F", (), {"predict": lambda self: 1}))
    with pytest.raises(SettingError, match=r"versions=\{\}: must be a Versions\(\.\.\.\)"):
        inference_function(versions={})(type("F", (), {"predict": lambda self: 1}))
