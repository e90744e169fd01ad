"""Certificates of API servers: whose they are, for which name, and what is said of one that is not trusted."""

from __future__ import annotations

import http.server
import json
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.errors import Unreachable
from deploy.knative import Cluster

from .kubeconfig import write

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
NAME = "k8s.internal"


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers each list with an empty one."""

    def do_GET(self) -> None:
        content = json.dumps({"metadata": {}, "items": []}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class Server:
    url: str
    certificate: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "one.pem", folder / "one.key"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=x", "-addext", f"subjectAltName=DNS:{NAME}"]
    subprocess.run(made, check=True, capture_output=True)
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    yield Server(f"https://127.0.0.1:{listening.server_address[1]}", str(certificate))
    listening.shutdown()
    thread.join()
    listening.server_close()


def num_services(folder: Path, url: str, **cluster: Any) -> int:
    with Cluster.connect(environ={"KUBECONFIG": write(folder, url, cluster=cluster)}) as found:
        return len(found.services())


def test_the_name_that_a_kubeconfig_gives_is_the_certificates(server: Server, tmp_path: Path) -> None:
    named = {"certificate-authority": server.certificate, "tls-server-name": NAME}
    assert num_services(tmp_path, server.url, **named) == 0


def test_a_certificate_that_is_not_trusted_is_said_to_be_at_fault(server: Server, tmp_path: Path) -> None:
    for known in ({}, {"certificate-authority": server.certificate}):  # of nobody known, for another name
        with pytest.raises(Unreachable, match=r"is not trusted: .*; the kubeconfig's certificate-authority has to be"):
            num_services(tmp_path, server.url, **known)
