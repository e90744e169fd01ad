"""What to deploy, as plain values. Every part is checked when it is made, so a description that exists can be rendered.

Each `InvalidSpec` names the option, the value and the remedy. Numbers of seconds may be fractional; Knative takes whole
ones and gets the next.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deploy import checks, names, quantity
from deploy.errors import InvalidName, InvalidSpec
from deploy.gpu import PRODUCT_LABEL
from deploy.volume import SnapshotVolume

# Knative reads these from the service, every other annotation from the revision template.
SERVICE_ANNOTATION = re.compile(r"networking\.knative\.dev/.*|serving\.knative\.dev/rollout-duration")

# Keys that the mapping itself writes, in each of the spellings that Knative reads. The knobs of its autoscaler that no
# option here stands for (the panic window, the initial scale) remain free.
_OWN_LABEL = re.compile(r"app\.kubernetes\.io/(name|managed-by)|serving\.knative\.dev/.*")
_OWN_ANNOTATION = re.compile(
    r"autoscaling\.knative\.dev/(?!initial|panic|metric-?[aA]gg).*|serving\.knative\.dev/(?!rollout-duration).*|faas/.*"
)
_RESERVED_PORTS = (8008, 8012, 8013, 8022, 8112, 9090, 9091)  # Knative's queue-proxy listens there
_PROGRESS_MARGIN_S = 60  # scheduling and pulling the image come before the startup timeout begins
_DRAIN_S = 30  # the queue-proxy holds SIGTERM back for this long, while routes to the pod go

SHORTEST_WINDOW_S, USUAL_WINDOW_S, _LONGEST_WINDOW_S = 6, 60, 3600


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one instance may use. CPU and memory are requested and are the limit: threads are counted from the quota.

    `num_gpus` counts whole devices of `gpu_resource`. `gpu_kind` (`L4`, `A100`, or a value of the node label
    `gpu_kind_label`) confines instances to the nodes that carry it.
    """

    cpu: str | float = 1
    memory: str = "2Gi"
    num_gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    gpu_kind: str | None = None
    gpu_kind_label: str = PRODUCT_LABEL

    def __post_init__(self) -> None:
        object.__setattr__(self, "cpu", quantity.cpu("resources.cpu", self.cpu))
        quantity.memory("resources.memory", self.memory)
        checks.whole("resources.num_gpus", self.num_gpus, most=64)
        for option in ("gpu_resource", "gpu_kind_label"):
            key = getattr(self, option)
            if "/" not in key or not names.is_qualified(key):
                raise InvalidSpec(f"resources.{option}", key, "is not a qualified name", "write it as domain/name")
        if self.gpu_kind is None:
            return
        if not self.gpu_kind or not names.is_label_value(self.gpu_kind):
            raise InvalidSpec("resources.gpu_kind", self.gpu_kind, "is not a kind of GPU", "write it as 'L4' or 'A100'")
        if not self.num_gpus:
            raise InvalidSpec("resources.gpu_kind", self.gpu_kind, "asks for no GPU", "set resources.num_gpus too")


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """How many instances there are, and when.

    One instance is meant to carry `target_inputs` requests at a time and takes at most `max_inputs` (0: no limit). For
    batches of B these are B and 2 B: one batch runs while the next gathers. With `target_rps` it is meant to carry so
    many requests a second instead, and `target_inputs` counts for nothing. The number of instances stays between
    `min_instances` and `max_instances` (0: no limit), starts from zero at `activation_scale`, goes to zero
    `scaledown_window_s` after the last request (Knative may add 30 s), and down from more only once fewer have sufficed
    for `scale_down_delay_s`.
    """

    min_instances: int = 0
    max_instances: int = 3
    target_inputs: float = 1
    max_inputs: int = 2
    target_rps: float | None = None
    scaledown_window_s: float = 60
    scale_down_delay_s: float = 0
    activation_scale: int = 1

    def __post_init__(self) -> None:
        least = checks.whole("scaling.min_instances", self.min_instances)
        most = checks.whole("scaling.max_instances", self.max_instances)
        start = checks.whole("scaling.activation_scale", self.activation_scale, least=1)
        limit = checks.whole("scaling.max_inputs", self.max_inputs)
        target = checks.number("scaling.target_inputs", self.target_inputs, least=0.01)
        if self.target_rps is not None:
            checks.number("scaling.target_rps", self.target_rps, least=0.01)
        if most and least > most:
            raise InvalidSpec(
                "scaling.min_instances", least, f"is above max_instances={most}", "lower it or raise that"
            )
        if most and start > most:
            raise InvalidSpec("scaling.activation_scale", start, f"is above max_instances={most}", "lower it")
        if 1 < start < least:
            raise InvalidSpec(
                "scaling.activation_scale", start, f"is below min_instances={least}", "raise it or give 1"
            )
        if limit and target > limit:
            remedy = "raise max_inputs to twice the batch size and give the batch size as target_inputs"
            raise InvalidSpec("scaling.target_inputs", target, f"is above max_inputs={limit}", remedy)
        longest = USUAL_WINDOW_S + _LONGEST_WINDOW_S  # the stable window, then the retention of the last instance
        for option, bound in (("scaledown_window_s", longest), ("scale_down_delay_s", _LONGEST_WINDOW_S)):
            seconds = checks.number(f"scaling.{option}", getattr(self, option), least=0)
            if seconds > bound:
                remedy = "set min_instances=1 to stay up"
                raise InvalidSpec(f"scaling.{option}", seconds, f"is over Knative's {bound} s", remedy)


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """`timeout_s` for one request once an instance is ready, `startup_timeout_s` until it is, `grace_period_s` to stop.

    Knative counts from the arrival of a request, so a request at zero is allowed the sum of the first two.
    """

    timeout_s: float = 60
    startup_timeout_s: float = 300
    grace_period_s: float = 30

    def __post_init__(self) -> None:
        checks.number("timeouts.timeout_s", self.timeout_s, least=0.001)
        checks.number("timeouts.startup_timeout_s", self.startup_timeout_s, least=1)
        checks.number("timeouts.grace_period_s", self.grace_period_s, least=0)

    @property
    def request_s(self) -> int:
        """What a request may take from its arrival to its answer, a cold start included."""
        return math.ceil(self.timeout_s + self.startup_timeout_s)

    @property
    def revision_s(self) -> int:
        """The revision's timeout: room for a request, and for a stop, since Knative gives a pod the same to end."""
        return max(self.request_s, _DRAIN_S + math.ceil(self.grace_period_s))

    @property
    def progress_s(self) -> int:
        """What a new revision may take until its first instance is ready: the pod's own start, and what precedes it."""
        return math.ceil(self.startup_timeout_s) + _PROGRESS_MARGIN_S


@dataclass(frozen=True, kw_only=True)
class Probes:
    """Where an instance says that it is ready (after load and warm-up) and that it is alive (from its first second).

    `startup` has the kubelet restart an instance whose port is not open within the startup timeout. It costs cold
    starts a second: the kubelet looks once a second, and where there is a startup probe Knative's activator waits for
    Kubernetes to mark the pod ready instead of asking the pod itself. Without it only liveness is looked at, after that
    timeout.
    """

    ready_path: str = "/readyz"
    live_path: str = "/livez"
    startup: bool = True

    def __post_init__(self) -> None:
        checks.absolute_path("probes.ready_path", self.ready_path)
        checks.absolute_path("probes.live_path", self.live_path)
        if self.ready_path == self.live_path:
            remedy = "give two: a busy or loading instance is alive and must not be restarted"
            raise InvalidSpec("probes.live_path", self.live_path, "is the path of readiness too", remedy)


@dataclass(frozen=True, kw_only=True)
class SecretRef:
    """A secret by reference: all its keys as variables, or the one `key` as the variable `env`."""

    name: str
    key: str | None = None
    env: str | None = None

    def __post_init__(self) -> None:
        checks.object_name("secrets.name", self.name)
        if (self.key is None) != (self.env is None):
            raise InvalidSpec("secrets.env", self.env, f"goes with key={self.key!r}", "give both, or neither")
        if self.env is not None:
            checks.env_name("secrets.env", self.env)
        if self.key is not None and not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", self.key):
            raise InvalidSpec("secrets.key", self.key, "is not a key of a secret", "use letters, digits, '-', '_', '.'")


@dataclass(frozen=True, kw_only=True)
class ServiceSpec:
    """One service: what runs, with what, how many times and for how long.

    `name` may be a Python name; `label` is what the cluster gets. `command`, `args` and the values of `env` are taken
    literally (`$` has no meaning in them); an empty `command` runs the image's own. `run_as_user` is needed where the
    image does not name a numeric user, since instances never run as root. `annotations` go on the revision template,
    those that Knative reads from a service (`networking.knative.dev/`, the rollout duration) on the service. The root
    file system is read-only; `scratch_path` is an empty folder to write in, on the node's disk (None: there is none,
    and the root can be written to).
    """

    name: str
    image: str
    namespace: str = "default"
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[SecretRef] = ()
    resources: Resources = field(default_factory=Resources)
    scaling: Scaling = field(default_factory=Scaling)
    timeouts: Timeouts = field(default_factory=Timeouts)
    port: int = 8000
    probes: Probes = field(default_factory=Probes)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    service_account: str | None = None
    run_as_user: int | None = None
    snapshot: SnapshotVolume | None = None
    scratch_path: str | None = "/tmp"

    def __post_init__(self) -> None:
        if not names.is_namespace(self.namespace):
            raise InvalidName("namespace", self.namespace, "is not a DNS label", "use a-z, 0-9 and hyphens, at most 63")
        names.dns_label(self.name, self.namespace)
        checks.image("image", self.image)
        for option in ("command", "args"):
            self._keep(option, checks.words(option, getattr(self, option)))
        for option in ("env", "labels", "annotations"):
            self._keep(option, checks.text_mapping(option, getattr(self, option)))
        self._keep("secrets", tuple(self.secrets))
        self._check_env()
        self._check_metadata()
        if checks.whole("port", self.port, least=1, most=65535) in _RESERVED_PORTS:
            raise InvalidSpec("port", self.port, "is used by Knative inside the pod", "use another, such as 8000")
        if self.service_account is not None:
            checks.object_name("service_account", self.service_account)
        if self.run_as_user is not None:
            checks.whole("run_as_user", self.run_as_user, least=1)

        if self.scratch_path is not None:
            checks.mount_path("scratch_path", self.scratch_path)
            if self.snapshot is not None and self.snapshot.mount_path == self.scratch_path:
                remedy = "give one of them another path"
                raise InvalidSpec("scratch_path", self.scratch_path, "is where the snapshot is mounted", remedy)

    @property
    def label(self) -> str:
        """The name that the cluster gets, the same in every field."""
        return names.dns_label(self.name, self.namespace)

    def _keep(self, option: str, value: Any) -> None:
        object.__setattr__(self, option, value)

    def _check_env(self) -> None:
        for variable in self.env:
            checks.env_name(f"env[{variable!r}]", variable)
        seen = set(self.env)
        for secret in self.secrets:
            if not isinstance(secret, SecretRef):
                raise InvalidSpec("secrets", secret, "is not a reference", "write SecretRef(name=...)")
            if secret.env in seen:
                raise InvalidSpec("secrets.env", secret.env, "is set twice", "give each variable one source")
            if secret.env is not None:
                seen.add(secret.env)

    def _check_metadata(self) -> None:
        for option, mapping, owned in (
            ("labels", self.labels, _OWN_LABEL),
            ("annotations", self.annotations, _OWN_ANNOTATION),
        ):
            for key, value in mapping.items():
                if not names.is_qualified(key):
                    raise InvalidSpec(option, key, "is not a key", "write it as name or domain/name")
                if owned.fullmatch(key):
                    raise InvalidSpec(
                        f"{option}[{key!r}]", value, "is written by other options", "set those, or rename it"
                    )
        for key, value in self.labels.items():
            if not names.is_label_value(value):
                remedy = "use at most 63 letters, digits, '-', '_' and '.', or make it an annotation"
                raise InvalidSpec(f"labels[{key!r}]", value, "cannot be the value of a label", remedy)
