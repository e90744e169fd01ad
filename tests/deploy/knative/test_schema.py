"""Golden manifests against the schema of the custom resource; the schema's checker and server-side apply themselves."""

import copy
from typing import Any

import pytest
import yaml

from deploy.manifest import service
from tests.deploy.examples import EXAMPLES
from tests.deploy.test_manifest import GOLDEN

from .fields import Held, Owners
from .schema import SERVICE, problems


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_golden_manifest_passes_the_schema(name: str) -> None:
    assert problems(yaml.safe_load((GOLDEN / f"{name}.yaml").read_text())) == []


@pytest.mark.parametrize(
    ("path", "value", "wrong"),
    [
        (("spec", "template", "spec", "timeoutSeconds"), "60", "must be int"),
        (("spec", "template", "spec", "timeoutSeconds"), True, "must be int"),
        (("spec", "template", "spec", "enableServiceLinks"), "no", "must be bool"),
        (("spec", "template", "spec", "containers"), {}, "must be a list"),
        (("spec", "template", "spec", "nodeName"), "n", "not declared"),
        (("spec", "template", "metadata", "annotations"), {"a": 1}, "must be map"),
        (("spec", "traffic"), [{"percent": "10"}], "must be int"),
        (("spec", "template", "spec", "containers", 0, "resources", "limits"), {"cpu": "4gb"}, "must be amounts"),
        (("spec", "template", "spec", "containers", 0, "env"), [{"value": "x"}], ".name: is required"),
        (("spec", "template", "spec"), {}, ".containers: is required"),
        (("spec",), [], "must be an object"),
    ],
)
def test_what_does_not_fit_is_found(path: tuple[Any, ...], value: Any, wrong: str) -> None:
    document: Any = copy.deepcopy(service(EXAMPLES["hello"]))
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    (found,) = problems(document)
    assert wrong in found


def test_the_schema_is_not_empty() -> None:
    assert problems({}, SERVICE) == []
    assert len(problems({"spec": {"template": {"spec": {}}}}, SERVICE)) == 1


def doc(**spec: Any) -> dict[str, Any]:
    return {"kind": "Service", "metadata": {"name": "a"}, "spec": spec}


def test_apply_sets_keeps_and_gives_up() -> None:
    owners = Owners()
    live = owners.apply({}, doc(a=1, b={"c": 2}), "faas", force=False)
    owners.note_update(live, doc(a=1, b={"c": 2, "d": 3}), "other")
    live = owners.apply(doc(a=1, b={"c": 2, "d": 3}), doc(a=2), "faas", force=False)
    assert live["spec"] == {"a": 2, "b": {"d": 3}}


def test_apply_conflicts_with_what_another_changed_and_force_takes_it() -> None:
    owners = Owners()
    live = owners.apply({}, doc(a=1), "faas", force=False)
    owners.note_update(live, doc(a=5), "other")
    with pytest.raises(Held) as raised:
        owners.apply(doc(a=5), doc(a=1), "faas", force=False)
    assert raised.value.by == [("other", ("spec", "a"))]
    assert owners.apply(doc(a=5), doc(a=5), "faas", force=False)["spec"] == {"a": 5}  # both may hold one value
    assert owners.apply(doc(a=5), doc(a=1), "faas", force=True)["spec"] == {"a": 1}


def test_lists_are_one_field_but_those_with_a_key() -> None:
    def volumes(*names: str) -> dict[str, Any]:
        return doc(template={"spec": {"volumes": [{"name": name, "emptyDir": {}} for name in names], "containers": []}})

    owners = Owners()
    live = owners.apply({}, volumes("a"), "faas", force=False)
    live = owners.apply(live, volumes("b"), "other", force=False)
    assert [v["name"] for v in live["spec"]["template"]["spec"]["volumes"]] == ["a", "b"]
    live = owners.apply(live, volumes(), "faas", force=False)
    assert [v["name"] for v in live["spec"]["template"]["spec"]["volumes"]] == ["b"]
