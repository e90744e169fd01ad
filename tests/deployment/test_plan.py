from __future__ import annotations

import pytest

from faas.deployment.plan import LARGE_LAYER_BYTES, NOWHERE, Places, Shipping, looked_at, plan, shipping, way
from faas.errors import SettingError

REPOSITORY, STORE = "registry.test/team", "s3://bucket/here"
SMALL = 1000


def test_code_goes_into_an_image_where_there_is_a_repository_and_into_the_store_else() -> None:
    assert way(Places(repository=REPOSITORY)) == "image"
    assert way(Places(repository=REPOSITORY, store=STORE)) == "image"
    assert way(Places(store=STORE)) == "store"
    assert way(Places(repository=REPOSITORY, store=STORE, code="store")) == "store"


@pytest.mark.parametrize("places", [Places(), Places(store=STORE, code="image"), Places(code="store")])
def test_without_a_place_it_is_said_what_to_set(places: Places) -> None:
    with pytest.raises(SettingError, match=r"set FAAS_IMAGE \(or --image\) .* or FAAS_STORE"):
        way(places)


def test_the_base_is_the_functions_own_then_the_one_named_then_the_usual_one() -> None:
    places = Places(repository=REPOSITORY, base="registry.test/base:1")
    made = plan(places, "embed", Shipping(), base="registry.test/own:1", version="1-py3")
    assert (made.image, made.base) == (f"{REPOSITORY}/embed", "registry.test/own:1")
    assert plan(places, "embed", Shipping(), base=None, version="1-py3").base == "registry.test/base:1"
    usual = plan(Places(repository=REPOSITORY), "embed", Shipping(), base=None, version="1-py3")
    assert usual.base == f"{REPOSITORY}/faas-runtime:1-py3"
    with pytest.raises(SettingError, match="set FAAS_BASE_IMAGE"):
        plan(Places(store=STORE), "embed", Shipping(), base=None, version="1-py3")


@pytest.mark.parametrize(
    ("places", "small", "large"),
    [
        (Places(repository=REPOSITORY), "image", "image"),
        (Places(repository=REPOSITORY, store=STORE), "image", "s3"),
        (Places(repository=REPOSITORY, store=STORE, code="store"), "s3", "s3"),
        (Places(store=STORE), "s3", "s3"),
        (Places(repository=REPOSITORY, store=STORE, snapshot="image"), "image", "image"),
        (Places(repository=REPOSITORY, store=STORE, snapshot="s3"), "s3", "s3"),
        (Places(repository=REPOSITORY, snapshot="node-cache"), "node-cache", "node-cache"),
        (Places(repository=REPOSITORY, snapshot="none"), "none", "none"),
    ],
)
def test_a_state_travels_in_the_image_or_through_the_store(places: Places, small: str, large: str) -> None:
    assert shipping(places, "embed", SMALL).kind == small
    assert shipping(places, "embed", LARGE_LAYER_BYTES).kind == large
    assert shipping(places, "embed", None) == Shipping()


def test_a_claim_is_named() -> None:
    asked = shipping(Places(repository=REPOSITORY, snapshot="pvc:models"), "embed", SMALL)
    assert (asked.kind, asked.source) == ("pvc", "models")


def test_an_image_of_its_own_is_named_with_its_tag() -> None:
    asked = shipping(Places(repository=REPOSITORY, snapshot="oci:registry.test:5000/team/models:1"), "embed", SMALL)
    assert (asked.kind, asked.source) == ("oci", "registry.test:5000/team/models:1")


@pytest.mark.parametrize(
    ("places", "says"),
    [
        (Places(repository=REPOSITORY, snapshot="s3"), "there is no store; set FAAS_IMAGE"),
        (Places(store=STORE, snapshot="image"), "set FAAS_IMAGE, or take s3"),
        (Places(repository=REPOSITORY, snapshot="pvc"), "name the claim, as in pvc:models"),
        (Places(repository=REPOSITORY, snapshot="pvc:"), "name the claim"),
        (Places(repository=REPOSITORY, snapshot="oci"), "name the image, as in oci:registry.example/team/models:1"),
        (Places(repository=REPOSITORY, snapshot="s3:x"), "give s3, image, node-cache, pvc:NAME, oci:REFERENCE or none"),
        (Places(repository=REPOSITORY, snapshot="disk"), "give s3, image, node-cache, pvc:NAME, oci:REFERENCE or none"),
    ],
)
def test_what_does_not_go_together_is_refused(places: Places, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        shipping(places, "embed", SMALL)


def test_what_should_be_known_is_noted() -> None:
    large = shipping(Places(repository=REPOSITORY), "embed", LARGE_LAYER_BYTES)
    assert large.kind == "image"
    assert "256 MiB and goes into its image" in large.notes[0]
    assert shipping(Places(repository=REPOSITORY), "embed", LARGE_LAYER_BYTES - 1).notes == ()
    alone = shipping(Places(repository=REPOSITORY, snapshot="node-cache"), "embed", SMALL)
    assert "nodes fetch nothing" in alone.notes[0]
    assert shipping(Places(repository=REPOSITORY, store=STORE, snapshot="node-cache"), "embed", SMALL).notes == ()


def test_only_what_is_streamed_or_kept_on_nodes_is_pushed_to_the_store() -> None:
    for kind, pushed in (("s3", True), ("node-cache", True), ("pvc", False), ("image", False), ("none", False)):
        how = Shipping(kind=kind, source="c")  # type: ignore[arg-type]
        made = plan(Places(repository=REPOSITORY, store=STORE), "embed", how, base=None, version="1")
        assert made.is_pushed_to_store is pushed
    without = plan(Places(repository=REPOSITORY), "embed", Shipping(kind="node-cache"), base=None, version="1")
    assert not without.is_pushed_to_store


def test_to_look_at_a_manifest_no_place_is_needed() -> None:
    assert looked_at(Places()).repository == NOWHERE
    assert looked_at(Places(store=STORE)).repository == NOWHERE
    for enough in (Places(repository=REPOSITORY), Places(store=STORE, base="b/c")):
        assert looked_at(enough) is enough
