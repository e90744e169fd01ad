"""Troubles in the words of those who have them, and what to do about each."""

import pytest

from deploy.knative.hints import hint
from deploy.knative.progress import Trouble

PULLED = 'Failed to pull image "r.example/team/embed@sha256:1": '
RESOLVED = (
    'Unable to fetch image "r.example/team/embed": failed to resolve image to digest: Get "https://r.example/v2/": '
)


@pytest.mark.parametrize(
    ("reason", "message", "then"),
    [
        ("ErrImagePull", "failed to authorize: unexpected status: 401 Unauthorized", "imagePullSecrets"),
        ("ImagePullBackOff", "pull access denied, repository does not exist or may require it", "imagePullSecrets"),
        ("ContainerMissing", RESOLVED + "unexpected status code 403 Forbidden", "imagePullSecrets"),
        ("ContainerMissing", RESOLVED + "x509: certificate signed by unknown authority", "certificate"),
        ("ErrImagePull", PULLED + "tls: failed to verify certificate: x509: certificate has expired", "certificate"),
        ("ErrImagePull", PULLED + "http: server gave HTTP response to HTTPS client", "plain HTTP"),
        ("ErrImagePull", PULLED + "dial tcp 127.0.0.1:5000: connect: connection refused", "as the cluster knows it"),
        ("ContainerMissing", RESOLVED + "dial tcp: lookup r.example: no such host", "as the cluster knows it"),
        ("ContainerMissing", RESOLVED + "context deadline exceeded", "as the cluster knows it"),
        ("ErrImagePull", PULLED + "429 Too Many Requests - toomanyrequests: You have reached your limit", "log in"),
        ("ErrImagePull", PULLED + "no match for platform in manifest: not found", "another machine"),
        (
            "CreateContainerError",
            'failed to generate container "866b" spec: failed to generate spec: failed to mkdir "": mkdir',
            "no image volumes",
        ),
        ("FailedCreate", 'pods "a" is forbidden: exceeded quota: team, requested: limits.memory=4Gi', "raise it"),
        (
            "FailedCreate",
            'pods "a" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes',
            "a policy",
        ),
        ("FailedCreate", "pods is forbidden: unable to validate against any security context constraint", "a policy"),
        (
            "FailedCreate",
            'pods "a" is forbidden: error looking up service account team/reader: serviceaccount "reader" not found',
            "kubectl create serviceaccount reader",
        ),
        (
            "FailedCreate",
            'pods "a" is forbidden: maximum memory usage per Container is 2Gi, but limit is 4Gi',
            "change memory in resources=",
        ),
        (
            "CreateContainerConfigError",
            "container has runAsNonRoot and image will run as root",
            "another user by its number",
        ),
        ("CreateContainerConfigError", 'secret "hub" not found', "make it: faas secret create hub KEY=VALUE"),
        (
            "CreateContainerConfigError",
            "couldn't find key TOKEN in Secret default/hub",
            "set it: faas secret create hub TOKEN=VALUE",
        ),
        ("Unschedulable", '0/1 nodes are available: persistentvolumeclaim "models" not found', "pvc:NAME"),
        ("Unschedulable", "0/1 nodes: pod has unbound immediate PersistentVolumeClaims", "kubectl describe pvc"),
        ("Unschedulable", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", "so much of nvidia.com/gpu free"),
        ("Unschedulable", "0/1 nodes are available: 1 Insufficient memory. preemption: 0/1", "so much of memory free"),
        ("Unschedulable", "0/2 nodes: 2 node(s) didn't match Pod's node affinity/selector.", "nvidia.com/gpu.product"),
        ("Unschedulable", "0/2 nodes: 2 node(s) had untolerated taint {gpu: }", "a taint keeps nodes for others"),
        ("RunContainerError", 'runc create failed: exec: "faas": executable file not found in $PATH', "--base"),
        ("NotOwned", 'There is an existing Service "embed" that we do not own.', "give the function another"),
        ("RevisionMissing", 'Revision "a-00001" referenced in traffic not found.', "faas promote"),
        ("IngressNotConfigured", "Ingress has not yet been reconciled.", "faas doctor"),
    ],
)
def test_a_trouble_is_told_with_what_to_do(reason: str, message: str, then: str) -> None:
    assert then in hint(Trouble(reason, message), None, [])


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", "manifest unknown"),
        ("CrashLoopBackOff", "it ended with exit code 1: 401 Unauthorized"),
        ("CrashLoopBackOff", "it ended with exit code 1: x509: certificate has expired"),
    ],
)
def test_what_is_not_known_is_not_guessed(reason: str, message: str) -> None:
    assert hint(Trouble(reason, message), None, []) == ""


def test_an_image_for_another_machine_is_known_by_the_log() -> None:
    crash = Trouble("CrashLoopBackOff", "it ended with exit code 1")
    assert "another machine" in hint(crash, None, [], ["exec /usr/local/bin/faas: exec format error"])
    assert hint(crash, None, [], ["ValueError: no weights"]) == ""
