"""Several kubeconfigs, read as kubectl reads them."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.errors import NoCluster
from deploy.knative.connection import connect


def write(folder: Path, name: str, **changes: Any) -> Path:
    """A file in a folder of its own; every entry in it goes by `name`, and its cluster is at `https://NAME:6443`."""
    config = {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443"}}],
        "users": [{"name": name, "user": {"token": f"of-{name}"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"in-{name}"}}],
        **changes,
    }
    path = folder / name / "config"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({key: value for key, value in config.items() if value is not None}))
    return path


def at(*files: Path | str) -> dict[str, str]:
    return {"KUBECONFIG": ":".join(map(str, files))}


def token(found: Any) -> str:
    return str(next(iter(found.configuration.auth_settings().values()))["value"])


def test_the_first_current_context_counts(tmp_path: Path) -> None:
    one, two = write(tmp_path, "one"), write(tmp_path, "two")
    none = write(tmp_path, "none", **{"current-context": None})
    for files, name in (((one, two), "one"), ((two, one), "two"), ((none, two), "two"), (("", none, one), "one")):
        found = connect(environ=at(*files))
        assert (found.host, found.context, found.namespace) == (f"https://{name}:6443", name, f"in-{name}")
        assert token(found) == f"Bearer of-{name}"
    assert connect("two", environ=at(one, two)).host == "https://two:6443"


def test_of_entries_with_one_name_the_first_counts(tmp_path: Path) -> None:
    one = write(tmp_path, "one", contexts=[{"name": "two", "context": {"cluster": "one", "user": "one"}}])
    found = connect("two", environ=at(one, write(tmp_path, "two")))
    assert (found.host, found.namespace) == ("https://one:6443", "default")


def test_a_context_is_chosen_where_none_is_current(tmp_path: Path) -> None:
    path = write(tmp_path, "one", **{"current-context": None})
    assert connect("one", environ=at(path)).host == "https://one:6443"
    with pytest.raises(NoCluster, match=r"no current context; choose one \(--context\): one"):
        connect(environ=at(path))


def test_an_empty_file_is_passed_over_and_one_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert connect(environ=at(tmp_path / "empty", write(tmp_path, "one"))).host == "https://one:6443"
    with pytest.raises(NoCluster, match="no current context"):
        connect(environ=at(tmp_path / "empty"))
    for text in ("[]", "clusters: {}", "users: [{}]"):
        (tmp_path / "wrong").write_text(text)
        with pytest.raises(NoCluster, match=r"wrong is no mapping|of .*wrong is no list|no current context"):
            connect(environ=at(tmp_path / "wrong"))


def test_paths_are_relative_to_their_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"server": "https://one:6443", "certificate-authority": "pki/ca.crt"}
    user = {"client-certificate": "me.crt", "client-key": "me.key"}
    one = write(
        tmp_path,
        "one",
        clusters=[{"name": "one", "cluster": cluster}],
        contexts=[{"name": "one", "context": {"cluster": "one", "user": "two"}}],
        users=[],
    )
    two = write(tmp_path, "two", users=[{"name": "two", "user": user}])
    for path in ("one/pki/ca.crt", "two/me.crt", "two/me.key"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(path)
    monkeypatch.chdir(tmp_path)
    found = connect(environ=at(one.relative_to(tmp_path), two)).configuration
    used = [Path(path).read_text() for path in (found.ssl_ca_cert, found.cert_file, found.key_file)]
    assert used == ["one/pki/ca.crt", "two/me.crt", "two/me.key"]


def plugin(folder: Path, code: str, **more: Any) -> Path:
    """A kubeconfig whose user is known by a program beside it."""
    (folder / "one").mkdir(exist_ok=True)
    program = folder / "one" / "plugin"
    program.write_text(f"#!{sys.executable}\n{code}\n")
    program.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": version, "command": "./plugin", "interactiveMode": "Never", **more}}
    return write(folder, "one", users=[{"name": "one", "user": user}])


def test_a_program_for_credentials_is_one_beside_its_kubeconfig(tmp_path: Path) -> None:
    code = (
        "import json\nprint(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': {'token': 'made'}}))"
    )
    assert token(connect(environ=at(plugin(tmp_path, code)))) == "Bearer made"


@pytest.mark.parametrize(
    ("code", "more", "says"),
    [
        (
            "import sys; sys.exit('your session is over: log in')",
            {},
            r"plugin.* gave no credentials: .*session is over",
        ),
        ("", {"command": "no-such-plugin"}, r"no-such-plugin.* gave no credentials: .*No such file"),
        ("", {"command": "no-such-plugin", "installHint": "get it at\nexample.com"}, r"; get it at example\.com"),
        ("print('no JSON')", {}, r"gave no credentials: .*; see that it runs"),
    ],
)
def test_a_program_that_gives_no_credentials_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], code: str, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(NoCluster, match=says):
        connect(environ=at(plugin(tmp_path, code, **more)))
    assert capfd.readouterr().err == ""
