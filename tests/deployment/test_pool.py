from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy import InvalidQuantity, InvalidSpec, manifest
from faas import dedicated
from faas.deployment import pool
from faas.deployment.pool import Pool
from faas.deployment.pooled import Change, difference
from faas.errors import SettingError
from tests.deploy.examples import EXAMPLES

GOLDEN = Path(__file__).parents[1] / "deploy" / "golden"


def described(**given: Any) -> Pool:
    return Pool(
        **{"name": "gpu-a", "image": "ghcr.io/acme/runtime:1", "functions": "s3://models/prod/pools/gpu-a"} | given
    )


def test_the_golden_pool_is_what_a_pool_is_deployed_as() -> None:
    made = described(
        max_instances=4, target_inputs=64, cpu=8, memory="32Gi", num_gpus=1, gpu_kind="L4", secrets=("bucket", "bucket")
    )
    assert pool.service_spec(made) == EXAMPLES["pool"]
    assert manifest.to_yaml(manifest.service(pool.service_spec(made))) == (GOLDEN / "pool.yaml").read_text()


def test_a_pod_serves_on_for_as_long_as_a_function_by_itself() -> None:
    assert pool.LAME_DUCK_S == dedicated.LAME_DUCK_S


def test_names_are_those_that_the_cluster_takes() -> None:
    made = pool.service_spec(described(name="GPU_a"))
    assert made.secrets[0].name == f"{made.label}-token"
    assert pool.place("s3://models/prod", made.label) == f"s3://models/prod/pools/{made.label}"


def test_snapshots_lie_in_the_store_that_the_place_is_in() -> None:
    assert pool.store_of(pool.place("s3://models/prod", "gpu-a")) == "s3://models/prod"
    assert pool.store_of("s3://models/by-hand") == "s3://models/by-hand"


def test_functions_get_what_the_platform_would_give_them_of_that_much_memory() -> None:
    assert pool.memory_bytes("1Gi") == int(0.8 * 2**30)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"env": {"FAAS_TOKEN": "a"}}, SettingError, "FAAS_TOKEN is set by the pool itself"),
        ({"secrets": ("A=b",)}, SettingError, "VARIABLE=name/key"),
        ({"min_instances": 5}, InvalidSpec, "scaling.min_instances"),
        ({"memory": "4"}, InvalidQuantity, "memory"),
        ({"gpu_kind": "L4"}, InvalidSpec, "asks for no GPU"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        pool.service_spec(described(**given))


def test_only_what_differs_is_sent_and_what_is_of_no_use_goes() -> None:
    before = {"code/app.py": "1", "code/aid.py": "1", "code/gone.py": "1", "code/lost.py": "1"}
    after = {"code/app.py": "2", "code/aid.py": "1", "code/new.py": "1", "code/lost.py": "1"}
    there = {"bundle.json", "code/app.py", "code/aid.py", "code/gone.py"}
    assert difference(before, after, there) == Change(("code/app.py", "code/lost.py", "code/new.py"), ("code/gone.py",))
    assert difference(after, after, {"bundle.json", *after}) == Change((), ())
    assert difference({}, after, ()) == Change(tuple(sorted(after)), ())
