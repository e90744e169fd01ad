"""Sentences of Knative's webhook, turned into what an operator can do."""

import pytest

from deploy.refusal import command_for, explain, flags_named

DENIED = 'admission webhook "validation.webhook.serving.knative.dev" denied the request: validation failed: '


@pytest.mark.parametrize(
    ("message", "flags"),
    [
        ("must not set the field(s): spec.template.spec.affinity", ("kubernetes.podspec-affinity",)),
        (
            "must not set the field(s): spec.template.spec.nodeSelector, spec.template.spec.tolerations",
            ("kubernetes.podspec-nodeselector", "kubernetes.podspec-tolerations"),
        ),
        (
            "HostPath volume support is disabled, but found HostPath volume snapshot: spec.template.spec.volumes[0]",
            ("kubernetes.podspec-volumes-hostpath",),
        ),
        ("Image volume support is disabled, but found Image volume s", ("kubernetes.podspec-volumes-image",)),
        (
            "Persistent volume claim support is disabled, but found persistent volume claim c\n"
            "Persistent volume write support is disabled, but found persistent volume claim c",
            ("kubernetes.podspec-persistent-volume-claim", "kubernetes.podspec-persistent-volume-write"),
        ),
        ("must not set the field(s): spec.template.spec.containers[0].lifecycle", ()),
        ("something else", ()),
    ],
)
def test_flags_that_a_refusal_is_about(message: str, flags: tuple[str, ...]) -> None:
    assert flags_named(DENIED + message) == flags
    text = explain("PATCH /x", 400, DENIED + message)
    assert "\n" not in text
    if flags:
        assert command_for(flags) in text
    else:
        assert text == f"PATCH /x was answered 400: {message}"


def test_a_limit_names_the_setting() -> None:
    text = explain("x", 400, DENIED + "expected 0 <= 901 <= 600: spec.template.spec.timeoutSeconds")
    for part in ("600 s", "901 s", "max-revision-timeout-seconds to 901", "config-defaults"):
        assert part in text


def test_what_knatives_webhook_tried_is_said_in_short() -> None:
    tried = DENIED + 'validation callback failed: dry run failed with pods "dry-run-x" is forbidden: exceeded quota: q'
    assert 'was answered 400: it tried a pod, and pods "dry-run-x" is forbidden: exceeded quota: q; ' in explain(
        "PATCH /x", 400, tried
    )


def test_a_right_that_is_missing_names_where_rights_are_listed() -> None:
    assert "docs/knative.md" in explain("GET /x", 403, "forbidden")
    assert "log in again" in explain("GET /x", 401, "Unauthorized")
    nobody = 'services is forbidden: User "system:anonymous" cannot patch resource "services"'
    assert "no credentials were sent" in explain("PATCH /x", 403, nobody)


@pytest.mark.parametrize(
    ("status", "message", "remedy"),
    [
        (404, 'namespaces "team" not found', "kubectl create namespace team"),
        (404, "404 page not found", "install Knative Serving"),
        (404, "the server could not find the requested resource", "install Knative Serving"),
        (403, "unable to create new content in namespace team because it is being terminated", "is being deleted"),
        (403, 'services "a" is forbidden: exceeded quota: team, requested: count/services=1', "raise it"),
        (400, 'pods "try" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3', "raise it"),
        (400, 'pods "try" is forbidden: maximum memory usage per Container is 150Mi, but limit is 200Mi: spec.template',
         "change memory in resources=, or have the operator change the maximum"),
        (400, 'pods "try" is forbidden: violates PodSecurity "restricted:latest": restricted volume types',
         "ask its operator which pods it allows"),
        (403, 'admission webhook "validation.gatekeeper.sh" denied the request: [owner] no label owner', "that policy"),
        (400, 'admission webhook "policy.example" denied the request: no label owner', "that policy"),
        (429, "too many requests", "a little later"),
        (500, 'Internal error occurred: failed calling webhook "webhook.serving.knative.dev": connection refused',
         "kubectl get pods -n knative-serving"),
        (503, "apiserver not ready", "a little later"),
        (500, "etcdserver: leader changed", "a little later"),
    ],
)  # fmt: skip
def test_what_is_missing_or_silent_in_a_cluster_is_said_with_what_to_do(status: int, message: str, remedy: str) -> None:
    text = explain("PATCH /x", status, message)
    assert text.startswith(f"PATCH /x was answered {status}: {message}; ")
    assert remedy in text
