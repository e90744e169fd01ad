"""Whether a command is about the platform that runs here or about a cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faas.cli.where import Where
from tests.cli.conftest import Faas
from tests.cli.platform import coming_up, recorded

KUBECONFIG = "/somewhere/kubeconfig"


def test_without_platform_and_kubeconfig_it_is_the_platform_here() -> None:
    assert not Where().is_cluster


def test_a_kubeconfig_is_a_cluster_where_no_platform_runs(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", KUBECONFIG)
    assert Where().is_cluster
    assert not Where(local=True).is_cluster
    with recorded(home):
        assert not Where().is_cluster
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not Where().is_cluster
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("")
    assert Where().is_cluster


def test_a_platform_that_is_coming_up_is_meant(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", KUBECONFIG)
    with coming_up(home, os.getpid()):
        assert not Where().is_cluster


def test_a_pod_has_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert Where().is_cluster
    monkeypatch.setenv("FAAS_URL", "http://{name}.team.svc.cluster.local")
    assert not Where().is_cluster


@pytest.mark.parametrize("where", [Where(cluster=True), Where(namespace="team"), Where(context="there")])
def test_an_option_says_that_the_cluster_is_meant(where: Where, home: Path) -> None:
    with recorded(home):
        assert where.is_cluster


def test_both_at_once_are_refused(faas: Faas) -> None:
    outcome = faas("list", "--local", "--namespace", "team")
    assert outcome.code == 2
    assert "--local and an option that names a cluster" in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["describe", "f"],
        ["logs", "f"],
        ["traffic", "f"],
        ["promote", "f"],
        ["rollback", "f"],
        ["delete", "f", "-y"],
        ["invoke", "f"],
    ],
)
def test_without_any_cluster_it_is_said_what_to_do(
    faas: Faas, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    outcome = faas(*words, "--cluster")
    assert outcome.code == 1
    assert outcome.err.startswith("error: no cluster: KUBECONFIG is not set")
    assert "\nnext:  have your operator give you a kubeconfig" in outcome.err


def test_all_that_a_deployment_lacks_is_named_at_once(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    said = faas("deploy", "app.py").err
    assert "FAAS_IMAGE" in said
    assert "FAAS_STORE" in said
    assert "FAAS_BASE_IMAGE" in said
    assert "KUBECONFIG" in said


def test_doctor_looks_at_what_needs_no_cluster(faas: Faas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    outcome = faas("doctor", "--image", "127.0.0.1:1/team")
    assert outcome.code == 1
    assert "error   cluster  no cluster: KUBECONFIG is not set" in outcome.out
    assert "127.0.0.1:1/team cannot be reached" in outcome.out
