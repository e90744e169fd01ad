"""Where a cluster's address and credentials come from, and what is said when they do not."""

import socket
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from urllib3.exceptions import InsecureRequestWarning

from deploy import InvalidName
from deploy.errors import Expired, Missing, MissingLibrary, NoCluster, NotAllowed, Unreachable
from deploy.knative import Cluster
from deploy.knative.connection import connect
from deploy.knative.rest import Rest

from .answers import Answer
from .api_server import ApiServer, Call, once
from .kubeconfig import write


def version(environ: dict[str, str]) -> str:
    rest = Rest(connect(environ=environ))
    try:
        return rest.date()[1]
    finally:
        rest.close()


def test_a_context_brings_its_namespace_and_a_given_one_goes_first(tmp_path: Path) -> None:
    environ = {"KUBECONFIG": write(tmp_path, "https://10.0.0.1:6443")}
    assert connect(environ=environ).namespace == "default"
    assert connect("team", environ=environ).namespace == "team-a"
    chosen = connect("team", "other", environ=environ)
    assert (chosen.namespace, chosen.context, chosen.host) == ("other", "team", "https://10.0.0.1:6443")
    with pytest.raises(NoCluster, match=r"'prod' is not in the kubeconfig .* here, team"):
        connect("prod", environ=environ)
    with pytest.raises(InvalidName):
        connect(namespace="Team A", environ=environ)


def test_several_files_and_the_usual_place(tmp_path: Path) -> None:
    path = write(tmp_path, "https://10.0.0.1:6443")
    assert connect(environ={"KUBECONFIG": f"{tmp_path}/absent:{path}"}).host == "https://10.0.0.1:6443"
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(Path(path).read_text().replace("10.0.0.1", "10.0.0.2"))
    assert connect(environ={"HOME": str(tmp_path)}).host == "https://10.0.0.2:6443"


def test_without_a_cluster_it_is_said_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match=r"KUBECONFIG is not set .*--dry-run"):
        connect(environ={"HOME": str(tmp_path)})
    with pytest.raises(NoCluster, match="names no file"):
        connect(environ={"KUBECONFIG": f"{tmp_path}/absent"})
    (tmp_path / "broken").write_text("contexts: [")
    with pytest.raises(NoCluster, match="cannot be used"):
        connect(environ={"KUBECONFIG": f"{tmp_path}/broken"})
    with pytest.raises(NoCluster, match="automountServiceAccountToken"):
        connect(environ={"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"clusters": []}, "has no server for the cluster 'c'; get one anew"),
        ({"clusters": [{"name": "c", "cluster": None}]}, "has no server for the cluster 'c'; get one anew"),
        ({"users": [{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]}, "plugin gke-gcloud-auth-plugin"),
        ({"users": [{"name": "u", "user": {"auth-provider": {"name": "azure"}}}]}, "exec plugin kubelogin"),
    ],
)
def test_a_context_that_says_too_little_is_said_so(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    path = Path(write(tmp_path, "http://127.0.0.1:1"))
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))
    with pytest.raises(NoCluster, match=says):
        connect(environ={"KUBECONFIG": str(path)})


def test_a_server_is_written_as_kubectl_takes_it(api: ApiServer, tmp_path: Path) -> None:
    for server in (api.url.removeprefix("http://"), f"{api.url}/"):
        assert version({"KUBECONFIG": write(tmp_path, server)}) == "v1.36.0"


@pytest.mark.parametrize(
    "answer", [b"302 Found\r\nLocation: https://login.example/", b"200 OK\r\nContent-Type: text/html"]
)
def test_a_page_to_log_in_at_is_no_api_server(tmp_path: Path, answer: bytes) -> None:
    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 %b\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>" % answer)

    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as thread:
        rest = Rest(connect(environ={"KUBECONFIG": write(tmp_path, f"http://127.0.0.1:{listening.getsockname()[1]}")}))
        served = thread.submit(serve, listening)
        with pytest.raises(Unreachable, match="a page to log in at, or no API server"):
            rest.get("/api/v1/pods")
        served.result(20)
        rest.close()


def test_a_token_is_sent_and_an_exec_plugin_is_run(api: ApiServer, tmp_path: Path) -> None:
    assert version({"KUBECONFIG": write(tmp_path, api.url)}) == "v1.36.0"
    assert api.state.calls[-1].headers["authorization"] == "Bearer t0ken"
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        'print(\'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "made"}}\')'
    )
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(plugin)],
        "interactiveMode": "Never",
    }
    assert version({"KUBECONFIG": write(tmp_path, api.url, user={"exec": command})}) == "v1.36.0"
    assert api.state.calls[-1].headers["authorization"] == "Bearer made"


@pytest.mark.parametrize("is_renewed", [True, False])
def test_a_token_that_is_refused_meanwhile_is_got_anew_once(api: ApiServer, tmp_path: Path, is_renewed: bool) -> None:
    plugin, made = tmp_path / "plugin.py", tmp_path / "made"
    plugin.write_text(
        "import json, pathlib\n"
        f"made = pathlib.Path({str(made)!r})\n"
        "number = len(made.read_text()) if made.exists() else 0\n"
        "made.write_text('x' * (number + 1))\n"
        f"token = f'token-{{number * {is_renewed:d}}}'\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': {'token': token}}))\n"
    )
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(plugin)],
        "interactiveMode": "Never",
    }

    def refuse(call: Call) -> Answer | None:
        return Answer(401, "Unauthorized") if call.headers["authorization"] == "Bearer token-0" else None

    rest = Rest(connect(environ={"KUBECONFIG": write(tmp_path, api.url, user={"exec": command})}))
    assert rest.date()[1] == "v1.36.0"
    api.do(lambda state: state.faults.append(refuse))
    if is_renewed:
        assert [rest.date()[1] for _ in range(3)] == ["v1.36.0"] * 3
    else:
        with pytest.raises(NotAllowed, match="log in again"):
            rest.date()
    rest.close()
    assert made.read_text() == "xx"


def test_in_a_pod_its_own_service_account_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.config import incluster_config

    for name, text in (("token", "p0d"), ("ca.crt", "certificate"), ("namespace", "team-b\n")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr("deploy.knative.connection._POD_NAMESPACE", tmp_path / "namespace")
    in_pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    for name, text in in_pod.items():
        monkeypatch.setenv(name, text)
    found = connect(
        environ={**in_pod, "HOME": str(tmp_path), "HTTPS_PROXY": "http://proxy", "NO_PROXY": "10.96.0.0/12"}
    )
    assert (found.host, found.namespace, found.context) == ("https://10.96.0.1:443", "team-b", None)
    assert found.proxy is None
    assert found.configuration.auth_settings()["BearerToken"]["value"] == "bearer p0d"


def test_k8_03_over_tls_too(api: ApiServer, tmp_path: Path) -> None:
    """The stand-in speaks no TLS, so that what fails tells whom it was tried with."""
    environ = {"KUBECONFIG": write(tmp_path, api.url.replace("http:", "https:")), "HTTPS_PROXY": "http://127.0.0.1:1"}
    with pytest.raises(Unreachable, match=r"through the proxy http://127\.0\.0\.1:1 "):
        version(environ)
    with pytest.raises(Unreachable) as raised:
        version({**environ, "NO_PROXY": "127.0.0.0/8"})
    assert "SSL" in str(raised.value)
    assert "proxy" not in str(raised.value)


@pytest.mark.parametrize("no_proxy", ["127.0.0.1", "127.0.0.0/8", "localhost,127.0.0.1", "*"])
def test_k8_03_no_proxy_reaches_the_api_directly(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_proxy: str
) -> None:
    dead = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy"), "http://127.0.0.1:1")
    for name, value in dead.items():
        monkeypatch.setenv(name, value)
    environ = {**dead, "KUBECONFIG": write(tmp_path, api.url)}
    assert version({**environ, "NO_PROXY": no_proxy}) == "v1.36.0"
    assert version({**environ, "no_proxy": no_proxy}) == "v1.36.0"
    with pytest.raises(
        Unreachable, match=r"through the proxy http://127\.0\.0\.1:1 .*add 127\.0\.0\.1:\d+ to NO_PROXY"
    ):
        version(environ)


def test_k8_03_the_environment_is_ours_to_read_and_not_the_librarys(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert version({"KUBECONFIG": write(tmp_path, api.url)}) == "v1.36.0"


def test_a_proxy_in_the_kubeconfig_stands_and_its_password_is_not_shown(tmp_path: Path) -> None:
    path = write(tmp_path, "http://127.0.0.1:2", cluster={"proxy-url": "http://me:secret@127.0.0.1:1"})
    with pytest.raises(Unreachable) as raised:
        version({"KUBECONFIG": path, "NO_PROXY": "*"})
    assert "through the proxy http://127.0.0.1:1" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_k8_03_a_proxy_that_wants_to_know_who_asks_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        environ = {
            "KUBECONFIG": write(tmp_path, "http://10.0.0.1:2"),
            "HTTP_PROXY": f"http://me:p%40ss@127.0.0.1:{proxy.getsockname()[1]}",
        }
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(version, environ)
            peer, _ = proxy.accept()
            with peer:
                asked = peer.recv(65536).decode().lower()
                peer.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"gitVersion": "v1"}')
            assert asking.result() == "v1"
    assert asked.startswith("get http://10.0.0.1:2/version ")
    assert "proxy-authorization: basic bwu6cebzcw==" in asked


def test_a_cluster_that_is_not_to_be_verified_is_so_in_silence(tmp_path: Path) -> None:
    path = write(tmp_path, "https://127.0.0.1:1", cluster={"insecure-skip-tls-verify": True})
    with warnings.catch_warnings():
        Rest(connect(environ={"KUBECONFIG": path})).close()
        warnings.warn(
            "unverified", InsecureRequestWarning, stacklevel=1
        )  # an error in these tests, unless it is ignored


def test_a_proxy_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    environ = {"KUBECONFIG": write(tmp_path, "http://10.0.0.1:2"), "HTTP_PROXY": "ftp://proxy"}
    with pytest.raises(NoCluster, match="the proxy ftp://proxy cannot be used"):
        version(environ)
    with pytest.raises(MissingLibrary, match="needs the package PySocks"):
        version({**environ, "HTTP_PROXY": "socks5://proxy:1080"})


def test_nobody_listening_and_nobody_answering_are_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unreachable, match=r"the API server http://127.0.0.1:1 cannot be reached"):
        version({"KUBECONFIG": write(tmp_path, "http://127.0.0.1:1")})
    monkeypatch.setattr("deploy.knative.rest._READ_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="timed out"):
            version({"KUBECONFIG": write(tmp_path, url)})


def test_a_busy_server_is_asked_again_and_other_errors_have_their_own_types(api: ApiServer, rest: Rest) -> None:
    busy = [Answer(429, "too many requests")] * 2
    api.do(lambda state: state.faults.append(once(*busy, verb="get", resource="secrets")))
    with pytest.raises(Missing, match="404") as raised:
        rest.get("/api/v1/namespaces/default/secrets/a")
    assert (raised.value.status, raised.value.reason) == (404, "NotFound")
    assert len(api.called("get", "secrets")) == 3
    api.do(lambda state: state.forbidden.add(("get", "secrets")))
    with pytest.raises(NotAllowed, match=r"403.*docs/knative\.md"):
        rest.get("/api/v1/namespaces/default/secrets/a")


def test_a_page_that_expires_begins_the_list_anew(api: ApiServer, rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.knative.rest._PAGE", 2)
    pods = [{"metadata": {"name": name, "namespace": "default"}} for name in "abcde"]
    api.do(lambda state: [state.store.put("pods", pod) for pod in pods])
    gone = once(Answer(410, "too old"), verb="list", resource="pods")
    api.do(lambda state: state.faults.append(lambda call: gone(call) if "continue" in call.query else None))
    found = rest.list_all("/api/v1/namespaces/default/pods")
    assert [item["metadata"]["name"] for item in found["items"]] == list("abcde")
    api.do(lambda state: state.faults.append(lambda call: Answer(410, "old") if "continue" in call.query else None))
    with pytest.raises(Expired):
        rest.list_all("/api/v1/namespaces/default/pods")


def test_a_cluster_is_a_context(api: ApiServer, tmp_path: Path) -> None:
    with Cluster.connect("team", environ={"KUBECONFIG": write(tmp_path, api.url)}) as cluster:
        assert (cluster.namespace, cluster.context, cluster.host) == ("team-a", "team", api.url)
        assert cluster.services() == []


def test_a_connection_that_breaks_off_is_begun_again_once(tmp_path: Path) -> None:
    """As one that was idle while an image was pushed, and that something in between has forgotten."""
    answer = b'{"metadata": {}, "items": []}'
    asked: list[bytes] = []

    def serve(listening: socket.socket, *answers: bytes) -> None:
        for one in answers:
            connection, _ = listening.accept()
            with connection:
                asked.append(connection.recv(65536).partition(b" ")[0])
                connection.sendall(one)

    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(answer), answer)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as thread:
        rest = Rest(connect(environ={"KUBECONFIG": write(tmp_path, f"http://127.0.0.1:{listening.getsockname()[1]}")}))
        served = thread.submit(serve, listening, b"", whole, b"", whole, b"", b"", b"")
        assert rest.list_all("/api/v1/pods")["items"] == []
        assert rest.apply("/api/v1/pods/a", {}, {})["items"] == []
        with pytest.raises(Unreachable):
            rest.get("/api/v1/pods")
        with pytest.raises(Unreachable):  # what is deleted twice may be another by then
            rest.delete("/api/v1/pods/a")
        served.result(20)
        rest.close()
    assert asked == [b"GET", b"GET", b"PATCH", b"PATCH", b"GET", b"GET", b"DELETE"]
