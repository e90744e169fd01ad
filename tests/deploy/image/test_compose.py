import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.image.compose import Changes, compose, scratch
from deploy.image.layer import Layer
from deploy.image.manifest import DOCKER_CONFIG, DOCKER_LAYER, DOCKER_MANIFEST, OCI_LAYER, Image, Manifest, Platform
from deploy.image.reference import digest_of

LAYER = Layer(Path("nowhere"), "sha256:" + "a" * 64, "sha256:" + "b" * 64, 7, "test")


def docker_base(**settings: Any) -> Image:
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": "2026-01-02T03:04:05Z",
        "docker_version": "x",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + "c" * 64]},
        "history": [{"created_by": "base"}],
    }
    content = json.dumps(config).encode()
    document = {
        "schemaVersion": 2,
        "mediaType": DOCKER_MANIFEST,
        "config": {"mediaType": DOCKER_CONFIG, "digest": digest_of(content), "size": len(content)},
        "layers": [{"mediaType": DOCKER_LAYER, "digest": "sha256:" + "d" * 64, "size": 5, "urls": ["kept"]}],
    }
    return Image.of(Manifest.of(json.dumps(document).encode(), DOCKER_MANIFEST, "x"), content, "x")


def test_nothing_on_a_base_is_that_very_base() -> None:
    base = docker_base()
    assert compose(base, [], Changes()).image is base


def test_a_layer_is_put_on_top_in_the_form_of_the_base() -> None:
    made = compose(docker_base(User="root"), [LAYER], Changes())
    document, config = made.image.manifest.document, made.image.config
    assert document["layers"][0]["urls"] == ["kept"]
    assert document["layers"][1] == {"mediaType": DOCKER_LAYER, "digest": LAYER.digest, "size": 7}
    assert config["rootfs"]["diff_ids"][1] == LAYER.diff_id
    assert [one["created_by"] for one in config["history"]] == ["base", "test"]
    assert (config["created"], config["docker_version"], config["config"]) == (
        "2026-01-02T03:04:05Z",
        "x",
        {"User": "root"},
    )
    assert compose(scratch(Platform()), [LAYER], Changes()).image.manifest.layers[0].media_type == OCI_LAYER


def test_the_same_parts_give_the_same_digest_and_others_another() -> None:
    changes = Changes(entrypoint=("a",), env={"A": "1"})
    first = compose(docker_base(), [LAYER], changes).image.manifest.digest
    assert compose(docker_base(), [replace(LAYER, path=Path("elsewhere"))], changes).image.manifest.digest == first
    assert compose(docker_base(), [LAYER], Changes(entrypoint=("a",), env={"A": "2"})).image.manifest.digest != first
    assert (
        compose(docker_base(), [replace(LAYER, diff_id="sha256:" + "e" * 64)], changes).image.manifest.digest != first
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (Changes(entrypoint=("faas",)), {"Entrypoint": ["faas"]}),
        (Changes(command=("b",)), {"Entrypoint": ["old"], "Cmd": ["b"]}),
        (Changes(entrypoint=("faas",), command=("serve",)), {"Entrypoint": ["faas"], "Cmd": ["serve"]}),
        (Changes(), {"Entrypoint": ["old"], "Cmd": ["was"]}),
    ],
)
def test_a_command_that_was_for_another_entrypoint_goes_with_it(changes: Changes, expected: dict[str, Any]) -> None:
    found = compose(docker_base(Entrypoint=["old"], Cmd=["was"]), [LAYER], changes).image.config["config"]
    assert found == expected


def test_what_runs_is_changed_and_the_rest_stays() -> None:
    base = docker_base(
        Env=["PATH=/usr/bin", "LANG=C", "A=b=c"], Labels={"x": "1"}, ExposedPorts={"80/tcp": {}}, StopSignal="SIGINT"
    )
    changes = Changes(
        env={"LANG": "C.UTF-8", "NEW": "1"},
        search={"PATH": "/opt/bin", "PYTHONPATH": "/opt/lib"},
        user="65532:65532",
        workdir="/tmp",
        labels={"y": "2"},
        ports=(8000,),
    )
    assert compose(base, [], changes).image.settings == {
        "Env": ["PATH=/opt/bin:/usr/bin", "LANG=C.UTF-8", "A=b=c", "NEW=1", "PYTHONPATH=/opt/lib"],
        "Labels": {"x": "1", "y": "2"},
        "ExposedPorts": {"80/tcp": {}, "8000/tcp": {}},
        "StopSignal": "SIGINT",
        "User": "65532:65532",
        "WorkingDir": "/tmp",
    }


def test_a_search_path_that_the_base_has_not_is_the_usual_one() -> None:
    found = compose(docker_base(), [], Changes(search={"PATH": "/opt/bin"})).image.environment
    assert found["PATH"].startswith("/opt/bin:/usr/local/sbin:")
