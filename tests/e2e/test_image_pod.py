"""A pod of a pool with its packages where an image has them: in a folder that `PYTHONPATH` names."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from faas.deployment import own_wheel
from faas.preparation import Preparations
from tests.deploy.knative.api_server import ApiServer
from tests.deploy.knative.kubeconfig import write
from tests.e2e.conftest import bring_up, environ, take_down
from tests.e2e.test_pods import Team
from tests.s3_server import rclone

PYTHON = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
ABSENT = "charset-normalizer"
SHOWS = """
    from faas import inference_function

    @inference_function(warmup=[1])
    class Shows:
        def setup(self) -> None:
            from tqdm import tqdm
            self.read = list(tqdm(range(3)))
        def predict(self, x: int) -> int:
            return self.read[x]
"""


@pytest.fixture
def packages(tmp_path: Path) -> Mapping[str, str]:
    """Lay out the packages of this environment as those of an image, all but one; return the variables that say so."""
    folder = tmp_path / "packages"
    shutil.unpack_archive(own_wheel.write(tmp_path), folder, "zip")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        is_absent = path.name.startswith(ABSENT.replace("-", "_"))
        if not is_absent and not (folder / path.name).exists() and "__editable__" not in path.name:
            (folder / path.name).symlink_to(path)
    return {"PYTHONPATH": str(folder), "PYTHONNOUSERSITE": "1"}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_ready_handler_thaws_in_a_pod_that_lacks_what_it_does_not_use(
    tmp_path: Path, packages: Mapping[str, str]
) -> None:
    with rclone(tmp_path, "bucket") as s3, ApiServer() as api:
        team = Team(tmp_path / "team", {**s3.environment(), "KUBECONFIG": write(tmp_path, api.url)})
        team.faas("pool", "create", "cpu", "--store", "s3://bucket/prod", "--image", "registry.test/runtime:1")
        service = api.do(lambda state: state.store.get("services", "default", "cpu"))
        secret = api.do(lambda state: state.store.get("secrets", "default", "cpu-token"))
        (container,) = service["spec"]["template"]["spec"]["containers"]
        said = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        token = base64.b64decode(secret["data"]["FAAS_TOKEN"]).decode()
        home = tmp_path / "pod"
        env = {**said, **packages, **s3.environment(), "FAAS_TOKEN": token, "FAAS_HOME": str(home)}
        box = bring_up(home, *container["args"][1:], env=env, python=PYTHON)
        try:
            team = Team(team.home, {**team.env, "FAAS_INGRESS": box.url})
            (deployed,) = json.loads(team.faas("deploy", "--pool", "cpu", "handlers.embed", "--json"))
            assert deployed["snapshot"].startswith("s3://bucket/prod/embed@")
            made = Preparations(team.home / "snapshots").read("embed")
            assert made is not None
            assert ABSENT in made.origin.distributions, "it is merely imported where the function is made ready"
            for _ in range(2):
                assert box.run("scale", "embed", "0").returncode == 0
                woken = box.call("embed", "a sentence")
                assert (woken.status_code, len(woken.json())) == (200, 384)
                phases = dict(part.strip().split(";dur=") for part in woken.headers["server-timing"].split(","))
                assert {"fork", "thaw", "activate"} <= phases.keys()
                assert "setup" not in phases
            log = (box.home / "up.log").read_text()
            assert "is made ready here" not in log
            assert "no forks" not in log
        finally:
            take_down(box)


@pytest.mark.slow
def test_what_is_made_ready_there_is_frozen_and_is_the_users_own_alone(
    tmp_path: Path, packages: Mapping[str, str]
) -> None:
    app, store = tmp_path / "code" / "app.py", tmp_path / "store"
    app.parent.mkdir()
    app.write_text(textwrap.dedent(SHOWS))
    done = subprocess.run(
        [PYTHON, "-P", "-m", "faas.cli.main", "snapshot", "create", str(app), "--store", str(store)],
        env={**environ(tmp_path / "h"), **packages},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = Preparations(store).read("shows")
    assert made is not None
    assert (made.reason, made.compared, made.rehearsable) == (None, True, True)
    assert list(made.origin.sources) == [str(app)]
    assert {"msgspec", "tqdm", "faas.codec"} <= set(made.imports)
