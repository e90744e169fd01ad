"""What is wrong, or will be, between a cluster and a service: facts in, findings with their remedies out. Pure.

A fact that could not be had (no right to read it, no access) is None, and leads to a note rather than to a guess.
`deploy.knative.facts` collects them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from deploy import gpu, quantity
from deploy.advice import about_timeouts, feature_flags
from deploy.refusal import command_for
from deploy.spec import Resources, Scaling, ServiceSpec

Level = Literal["ok", "note", "warning", "error"]

_MAX_SKEW_S = 60.0  # signatures of S3 requests are refused at 15 minutes, tokens at a few
_USUAL_MOST_TIMEOUT_S = 600
_USUAL_MOST_CONCURRENCY = 1000
_ON = ("enabled", "allowed")


@dataclass(frozen=True)
class Finding:
    """One thing looked at: what was found, and what to do about it (empty where there is nothing to do)."""

    level: Level
    check: str
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Node:
    """A node: `allocatable` are Kubernetes quantities, all that it offers; `ready` that pods may be put there."""

    name: str
    ready: bool
    allocatable: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Quota:
    """One bound of a namespace's quota: `resource` is its key, such as `requests.nvidia.com/gpu`."""

    name: str
    resource: str
    hard: str
    used: str


@dataclass(frozen=True)
class Reach:
    """Whether something outside the cluster answered: `text` says what, or why not, `remedy` what to do then."""

    where: str
    ok: bool
    text: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a cluster. None stands for: could not be found out."""

    host: str
    problem: str | None = None  # why the API server could not be asked; nothing else is known then
    version: str | None = None
    has_serving: bool | None = None
    has_ingress: bool | None = None
    serving_version: str | None = None
    ingress_class: str | None = None
    features: Mapping[str, str] | None = None
    defaults: Mapping[str, str] | None = None
    forbidden: str | None = None  # what of a deployment's own requests the cluster says that we may not make
    refusal: str | None = None
    was_tried: bool = False  # a server-side dry run was made; without a refusal it was taken
    nodes: tuple[Node, ...] | None = None
    quotas: tuple[Quota, ...] | None = None
    skew_s: float | None = None
    reaches: tuple[Reach, ...] = field(default_factory=tuple)


def examine(facts: Facts, spec: ServiceSpec | None = None, *, batch_size: int | None = None) -> list[Finding]:
    """Everything worth saying, in the order in which to mend it; `spec` adds what that one service needs.

    `batch_size` is the largest batch of the function, for which the concurrency should be made.
    """
    if facts.problem is not None:
        remedy = "mend this first: what is asked of the cluster could not be looked at"
        found = [Finding("error", "cluster", facts.problem, remedy), *(_reach(reach) for reach in facts.reaches)]
        return found if spec is None else [*found, *coherence(spec.scaling, batch_size)]
    found = [Finding("ok", "cluster", f"{facts.host} answers, Kubernetes {facts.version or 'of unknown version'}")]
    found += [*_knative(facts), *_rights(facts), *_clock(facts)]
    found += [_reach(reach) for reach in facts.reaches]
    if spec is not None:
        found += _features(facts, spec)
        found += _timeouts(facts, spec)
        found += _concurrency(facts, spec.scaling)
        found += coherence(spec.scaling, batch_size)
        found += _capacity(facts, spec.resources)
        found += _quotas(facts, spec)
    return found


def coherence(scaling: Scaling, batch_size: int | None) -> list[Finding]:
    """Whether batch size, containerConcurrency and target fit each other."""
    if batch_size is None:
        return []
    check, most, target = "concurrency", scaling.max_inputs, scaling.target_inputs
    if most == 0:
        remedy = f"set max_inputs={2 * batch_size}: one batch runs while the next gathers"
        return [Finding("warning", check, "max_inputs=0 sends one instance a burst whole", remedy)]
    if most < batch_size:
        what = f"max_inputs={most} is below the batch size {batch_size}: no batch ever fills"
        return [Finding("error", check, what, f"set max_inputs={2 * batch_size} and target_inputs={batch_size}")]
    if most < 2 * batch_size:
        what = f"max_inputs={most} leaves no room for a batch of {batch_size} to gather while one runs"
        return [Finding("warning", check, what, f"set max_inputs={2 * batch_size}")]
    if target > batch_size:
        what = f"target_inputs={target:g} is above the batch size {batch_size}: more instances come late"
        return [Finding("warning", check, what, f"set target_inputs={batch_size}")]
    if target < batch_size:
        what = f"target_inputs={target:g} is below the batch size {batch_size}: instances start before one is full"
        return [Finding("note", check, what, f"set target_inputs={batch_size} to fill batches first")]
    return [Finding("ok", check, f"batches of {batch_size}, target {target:g} and at most {most} for one instance fit")]


def _knative(facts: Facts) -> Iterator[Finding]:
    if facts.has_serving is False:
        yield Finding(
            "error", "knative", "Knative Serving is not installed", "install it: https://knative.dev/docs/install/"
        )
        return
    if facts.has_serving:
        version = "" if facts.serving_version is None else f" {facts.serving_version}"
        yield Finding("ok", "knative", f"Knative Serving{version} is there")
    if facts.has_ingress is False:
        remedy = "install one that Knative supports, such as Kourier, and name it in the config map config-network"
        yield Finding("error", "ingress", "Knative has no ingress: services get no address", remedy)
    elif facts.ingress_class is not None:
        yield Finding("ok", "ingress", f"the ingress is {facts.ingress_class}")


def _rights(facts: Facts) -> Iterator[Finding]:
    if facts.forbidden is not None:
        yield Finding("error", "rights", facts.forbidden, "have an operator bind the Role that docs/knative.md lists")


def _clock(facts: Facts) -> Iterator[Finding]:
    if facts.skew_s is None:
        return
    if abs(facts.skew_s) > _MAX_SKEW_S:
        what = f"this machine's clock and the cluster's differ by {facts.skew_s:+.0f} s"
        yield Finding("warning", "clock", what, "set both by NTP: tokens and S3 signatures are refused otherwise")
    else:
        yield Finding("ok", "clock", f"clocks agree to {abs(facts.skew_s):.0f} s")


def _reach(reach: Reach) -> Finding:
    if reach.ok:
        return Finding("ok", "reach", f"{reach.where} answers: {reach.text}")
    remedy = reach.remedy or "check the address, the credentials and the proxy; nodes need to reach it too"
    return Finding("error", "reach", f"{reach.where} cannot be reached: {reach.text}", remedy)


def _features(facts: Facts, spec: ServiceSpec) -> Iterator[Finding]:
    needed = feature_flags(spec)
    features = facts.features
    if features is not None:
        missing = tuple(flag for flag in needed if features.get(flag, "disabled").lower() not in _ON)
        if missing:
            what = f"this service needs {', '.join(missing)}, which the operator has not turned on"
            yield Finding("error", "features", what, f"an operator runs: {command_for(missing)}")
        elif needed:
            yield Finding("ok", "features", f"{', '.join(needed)}: on")
    if facts.refusal is not None:
        yield Finding("error", "dry run", f"the cluster refuses this service: {facts.refusal}", "change what it names")
    elif facts.was_tried:
        yield Finding("ok", "dry run", "the cluster would take this service")
    elif features is None and needed:
        what = f"whether {', '.join(needed)} are on could not be found out"
        yield Finding("note", "features", what, f"if the deploy is refused, an operator runs: {command_for(needed)}")


def _timeouts(facts: Facts, spec: ServiceSpec) -> Iterator[Finding]:
    start_s = f"startup_timeout_s={spec.timeouts.startup_timeout_s:g} and the rest for a node and the image"
    yield Finding("ok", "deadline", f"a revision has {spec.timeouts.progress_s} s to become ready, {start_s}")
    if facts.defaults is None:
        if (text := about_timeouts(spec.timeouts)) is not None:
            yield Finding("warning", "timeouts", text, "ask the operator, config-defaults could not be read")
        return
    most_s = int(facts.defaults.get("max-revision-timeout-seconds") or _USUAL_MOST_TIMEOUT_S)
    wanted_s = spec.timeouts.revision_s
    if wanted_s > most_s:
        remedy = (
            "lower timeout_s or startup_timeout_s, or have the operator set max-revision-timeout-seconds to "
            f"{wanted_s} in config-defaults, and the activator's terminationGracePeriodSeconds with it"
        )
        yield Finding("error", "timeouts", f"a request may take {wanted_s} s and the cluster allows {most_s} s", remedy)
    else:
        yield Finding("ok", "timeouts", f"a request may take {wanted_s} s of the {most_s} s allowed")


def _concurrency(facts: Facts, scaling: Scaling) -> Iterator[Finding]:
    defaults = facts.defaults or {}
    most = int(defaults.get("container-concurrency-max-limit") or _USUAL_MOST_CONCURRENCY)
    if scaling.max_inputs > most:
        what = f"max_inputs={scaling.max_inputs} is above the cluster's container-concurrency-max-limit of {most}"
        yield Finding("error", "concurrency", what, f"lower it to {most}")
    if scaling.max_inputs == 0 and defaults.get("allow-container-concurrency-zero", "true").lower() == "false":
        yield Finding("error", "concurrency", "the cluster refuses max_inputs=0", "give twice the batch size")


def _capacity(facts: Facts, wanted: Resources) -> Iterator[Finding]:
    """Whether any node could hold one instance; what runs there already is the scheduler's to know."""
    if facts.nodes is None:
        if wanted.num_gpus:
            what = "nodes may not be listed, so whether one has the GPU is unknown"
            yield Finding("note", "capacity", what, "ask the operator, or see kubectl describe pod after the deploy")
        return
    ready = [node for node in facts.nodes if node.ready]
    if not ready:
        yield Finding("error", "capacity", "no node is ready", "have the operator look: kubectl get nodes")
        return
    if wanted.num_gpus:
        ready, finding = _with_gpu(ready, wanted)
        yield finding
    room = [node for node in ready if _fits(node, wanted)]
    if ready and not room:
        what = f"no {'such ' if wanted.num_gpus else ''}node offers cpu={wanted.cpu} and memory={wanted.memory} at all"
        yield Finding("error", "capacity", what, "lower resources, or have the operator add a larger node")
    elif room:
        yield Finding("ok", "capacity", f"{len(room)} of {len(facts.nodes)} nodes could hold an instance")


def _with_gpu(nodes: list[Node], wanted: Resources) -> tuple[list[Node], Finding]:
    """The nodes with the GPUs that one instance needs, and what to say of them."""
    offering = [node for node in nodes if _amount(node.allocatable, wanted.gpu_resource) > 0]
    if not offering:
        what = f"no ready node offers {wanted.gpu_resource}: no GPU there, or its driver or device plugin is missing"
        remedy = (
            "have the operator install the vendor's device plugin (NVIDIA: the GPU operator) and see its pods' logs"
        )
        return [], Finding("error", "gpu", what, remedy)
    enough = [node for node in offering if _amount(node.allocatable, wanted.gpu_resource) >= wanted.num_gpus]
    if not enough:
        what = f"no node has {wanted.num_gpus} of {wanted.gpu_resource} at once"
        return [], Finding("error", "gpu", what, "lower resources.num_gpus: one instance runs on one node")
    if wanted.gpu_kind is not None:
        values = gpu.node_label_values(wanted.gpu_kind)
        of_kind = [node for node in enough if node.labels.get(wanted.gpu_kind_label) in values]
        if not of_kind:
            there = sorted({node.labels.get(wanted.gpu_kind_label, "no label") for node in enough})
            what = f"no node has a GPU of kind {wanted.gpu_kind}; {wanted.gpu_kind_label} is {', '.join(there)}"
            return [], Finding("error", "gpu", what, "ask for one of those, or install GPU feature discovery")
        enough = of_kind
    drivers = sorted({node.labels.get("nvidia.com/cuda.driver-version.full", "") for node in enough} - {""})
    driver = f", driver {', '.join(drivers)}" if drivers else ""
    return enough, Finding("ok", "gpu", f"{len(enough)} nodes have {wanted.num_gpus} of {wanted.gpu_resource}{driver}")


def _fits(node: Node, wanted: Resources) -> bool:
    pairs = (("cpu", str(wanted.cpu)), ("memory", wanted.memory))
    return all(_amount(node.allocatable, key) >= float(quantity.parse(key, amount)) for key, amount in pairs)


def _amount(amounts: Mapping[str, str], key: str) -> float:
    return float(quantity.parse(key, amounts[key])) if key in amounts else 0.0


def _quotas(facts: Facts, spec: ServiceSpec) -> Iterator[Finding]:
    """Whether one more instance fits the namespace's quotas."""
    wanted = {
        "requests.cpu": str(spec.resources.cpu),
        "cpu": str(spec.resources.cpu),
        "limits.cpu": str(spec.resources.cpu),
        "requests.memory": spec.resources.memory,
        "memory": spec.resources.memory,
        "limits.memory": spec.resources.memory,
        f"requests.{spec.resources.gpu_resource}": str(spec.resources.num_gpus),
        "pods": "1",
    }
    for quota in facts.quotas or ():
        if quota.resource not in wanted:
            continue
        amounts = [
            float(quantity.parse(quota.resource, text)) for text in (quota.used, wanted[quota.resource], quota.hard)
        ]
        used, asked, hard = amounts
        if asked and used + asked > hard:
            what = (
                f"quota {quota.name} allows {quota.hard} of {quota.resource} in {spec.namespace}, {quota.used} is used "
                f"and an instance needs {wanted[quota.resource]}"
            )
            remedy = "free some, ask for less, or have the operator raise the quota"
            yield Finding("error" if asked > hard else "warning", "quota", what, remedy)
