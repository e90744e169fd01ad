from pathlib import Path

import pytest

from deploy.image.auth import Keychain
from deploy.image.connection import Connection
from deploy.image.errors import BadSource


def test_plain_http_is_for_this_machine_and_where_it_is_told() -> None:
    connection = Connection(plain_http=frozenset({"registry.test:5000"}), keychain=Keychain({}))
    assert connection.endpoint("127.0.0.1:5000") == "http://127.0.0.1:5000"
    assert connection.endpoint("registry.test:5000") == "http://registry.test:5000"
    assert connection.endpoint("ghcr.io") == "https://ghcr.io"
    assert connection.endpoint("docker.io") == "https://registry-1.docker.io"


def test_certificates_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    connection = Connection(ca_file=tmp_path / "ca.pem", keychain=Keychain({}))
    with pytest.raises(BadSource, match=r"ca\.pem holds no certificates"):
        connection.certificates()
