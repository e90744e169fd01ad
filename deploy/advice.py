"""What a cluster at its default settings would refuse, or do otherwise than one may expect.

All of it is known from the description alone. Whether the operator has changed a setting is for a dry run to find out;
each warning therefore names the setting, and what to change here instead.
"""

from deploy.refusal import command_for
from deploy.spec import SHORTEST_WINDOW_S, ServiceSpec, Timeouts

_FLAG_OF_VOLUME = {
    "hostPath": "kubernetes.podspec-volumes-hostpath",
    "pvc": "kubernetes.podspec-persistent-volume-claim",
    "image": "kubernetes.podspec-volumes-image",
}
_MAX_TIMEOUT_S = 600
_MAX_CONCURRENCY = 1000
_DOUBTFUL_CORES = 128


def feature_flags(spec: ServiceSpec) -> tuple[str, ...]:
    """The flags of Knative's `config-features` that `spec` needs, off unless the operator turned them on."""
    flags = []
    if spec.snapshot is not None and spec.snapshot.kind in _FLAG_OF_VOLUME:
        flags.append(_FLAG_OF_VOLUME[spec.snapshot.kind])
    if spec.resources.gpu_kind is not None:
        flags.append("kubernetes.podspec-affinity")
    return tuple(flags)


def warnings(spec: ServiceSpec, *, limits_itself: bool = False) -> tuple[str, ...]:
    """Sentences for whoever deploys `spec`, each with its remedy; empty for what every cluster takes.

    `limits_itself` says that an instance sees to it by itself how much it takes.
    """
    return (*_about_limits(spec), *_about_scaling(spec, limits_itself), *_about_resources(spec), *_about_flags(spec))


def about_timeouts(timeouts: Timeouts) -> str | None:
    """Return what to say of timeouts that a cluster at its default settings refuses, None where it takes them."""
    revision_s = timeouts.revision_s
    if revision_s <= _MAX_TIMEOUT_S:
        return None
    longest = f"startup_timeout_s={timeouts.startup_timeout_s:g} and timeout_s={timeouts.timeout_s:g}"
    if revision_s > timeouts.request_s:
        longest = f"grace_period_s={timeouts.grace_period_s:g} and Knative's time to drain"
    return (
        f"timeouts: {longest} make {revision_s} s, and Knative refuses more than {_MAX_TIMEOUT_S} s by default; "
        f"lower them, or have the operator set max-revision-timeout-seconds to {revision_s} or more in the config "
        "map config-defaults of knative-serving, and the activator's terminationGracePeriodSeconds with it"
    )


def _about_limits(spec: ServiceSpec) -> list[str]:
    refused = about_timeouts(spec.timeouts)
    found = [] if refused is None else [refused]
    if spec.scaling.max_inputs > _MAX_CONCURRENCY:
        found.append(
            f"scaling.max_inputs={spec.scaling.max_inputs}: Knative refuses more than {_MAX_CONCURRENCY} by default; "
            "lower it, or have the operator raise container-concurrency-max-limit in the config map config-defaults"
        )
    return found


def _about_scaling(spec: ServiceSpec, limits_itself: bool) -> list[str]:
    found = []
    if spec.scaling.max_inputs == 0 and not limits_itself:
        found.append(
            "scaling.max_inputs=0: nothing limits what one instance is sent, and a burst meets the first one whole; "
            "give twice the batch size"
        )
    if spec.scaling.max_instances == 0:
        found.append("scaling.max_instances=0: nothing limits the number of instances, nor the bill; give a number")
    if spec.scaling.scaledown_window_s < SHORTEST_WINDOW_S:
        found.append(
            f"scaling.scaledown_window_s={spec.scaling.scaledown_window_s:g}: Knative's shortest window is "
            f"{SHORTEST_WINDOW_S} s, which is what it gets"
        )
    return found


def _about_resources(spec: ServiceSpec) -> list[str]:
    cpu = str(spec.resources.cpu)
    if cpu.isdigit() and int(cpu) > _DOUBTFUL_CORES:
        return [f"resources.cpu={cpu}: that is {cpu} whole cores; for {cpu} thousandths of one write '{cpu}m'"]
    return []


def _about_flags(spec: ServiceSpec) -> list[str]:
    return [
        f"this needs {flag}, which is off on a cluster unless its operator ran: {command_for((flag,))}"
        for flag in feature_flags(spec)
    ]
