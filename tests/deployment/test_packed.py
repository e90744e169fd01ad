"""What a packed function says of its start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from deploy import manifest
from faas.deployment import steps
from faas.deployment.described import Code, Surroundings
from faas.deployment.packed import Packed, distinct
from faas.deployment.plan import Delivery, Places, Shipping, plan
from faas.errors import SettingError
from faas.preparation import Origin, Preparation
from tests.deployment.given import VERSION, packed
from tests.deployment.test_published import DESCRIPTION

PLACES = Places(repository="registry.test/team", store="s3://bucket/here")


def frozen(folder: Path, kind: Delivery, imports: tuple[str, ...], snapshot: str | None = "/there") -> Packed:
    preparation = Preparation(
        description=DESCRIPTION,
        origin=Origin(python="3", sources={}, distributions={}),
        siblings=("embed",),
        imports=imports,
        snapshot=snapshot,
    )
    how = plan(PLACES, "embed", Shipping(kind=kind), base=None, version=VERSION)
    return replace(packed(folder, PLACES), plan=how, preparation=preparation)


def startup_probe(made: Packed) -> object:
    document = manifest.service(steps.spec_of(made, Code(image="registry.test/team/embed:1"), Surroundings()))
    return document["spec"]["template"]["spec"]["containers"][0].get("startupProbe")


def test_what_has_its_state_in_the_image_and_no_torch_is_left_to_the_activator(tmp_path: Path) -> None:
    assert startup_probe(frozen(tmp_path, "image", ("numpy", "onnxruntime", "torchless.model"))) is None


@pytest.mark.parametrize(
    ("kind", "imports", "snapshot"),
    [
        ("image", ("numpy", "torch.nn"), "/there"),
        ("s3", ("numpy",), "/there"),
        ("image", ("numpy",), None),
    ],
)
def test_what_loads_for_longer_has_a_startup_probe(
    tmp_path: Path, kind: Delivery, imports: tuple[str, ...], snapshot: str | None
) -> None:
    assert startup_probe(frozen(tmp_path, kind, imports, snapshot)) is not None


def test_kn_06_so_has_one_that_is_given_longer_to_start(tmp_path: Path) -> None:
    made = frozen(tmp_path, "image", ("onnxruntime",))
    assert made.preparation is not None
    slow = msgspec.structs.replace(made.preparation.description, startup_timeout_s=600.0)
    given = replace(made, preparation=msgspec.structs.replace(made.preparation, description=slow))
    assert startup_probe(given) is not None


def test_so_has_one_that_is_only_looked_at(tmp_path: Path) -> None:
    assert startup_probe(packed(tmp_path, PLACES)) is not None


def test_a_function_that_two_targets_name_is_one_and_two_of_one_name_are_refused(tmp_path: Path) -> None:
    one = frozen(tmp_path, "image", ())
    assert one.preparation is not None
    assert distinct([one, replace(one, revision="again")]) == [one]
    description = msgspec.structs.replace(one.preparation.description, target="/elsewhere/app.py:Embed")
    other = replace(one, preparation=msgspec.structs.replace(one.preparation, description=description))
    with pytest.raises(
        SettingError, match=r"two functions are called 'embed': .* and /elsewhere/app.py:Embed; give one"
    ):
        distinct([one, other])
