"""A pool: the one-box platform as a service that scales, and where its functions lie. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from deploy import Resources, Scaling, SecretRef, ServiceSpec, Timeouts, quantity
from faas import settings
from faas.deployment.described import secret
from faas.errors import SettingError
from faas.platform.budget import DEFAULT_SHARE

COMPONENT: Final = "pool"
PORT: Final = 8000
POOLS: Final = "pools"
"""Where pools have their functions in a store."""
_HOME: Final = "/tmp/faas"
LAME_DUCK_S: Final = 5
"""How long a pod that is to end still serves, while routes change: as long as that of a function by itself."""
_OWN: Final = ("PORT", settings.HOME, settings.TOKEN, settings.MEMORY, settings.LAME_DUCK)


@dataclass(frozen=True, kw_only=True)
class Pool:
    """What a pool is to be. One pod is meant to carry `target_inputs` requests at a time, and takes as many as come.

    `image` is a runtime image, `gpu` as in `faas.Resources`: a number of devices with or without their kind. `secrets`
    are written as a function writes them. `functions` is the folder or the address in S3 that its pods follow.
    """

    name: str
    image: str
    functions: str
    namespace: str = "default"
    min_instances: int = 1
    max_instances: int = 3
    target_inputs: float = 100
    cpu: float = 2
    memory: str = "4Gi"
    num_gpus: int = 0
    gpu_kind: str | None = None
    timeout_s: float = 240
    startup_timeout_s: float = 300
    scaledown_window_s: float = 300
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    service_account: str | None = None


def place(store: str, name: str) -> str:
    """Return where the functions of a pool lie in a store."""
    return f"{store}/{POOLS}/{name}"


def store_of(functions: str) -> str:
    """Return the store for the snapshots of a pool's functions: the one that its place is in, or the place itself."""
    above, mark, _ = functions.rpartition(f"/{POOLS}/")
    return above if mark else functions


def token_secret(name: str) -> str:
    """Return the name of the secret that has a pool's token."""
    return f"{name}-token"


def service_spec(pool: Pool) -> ServiceSpec:
    """Describe the service of a pool.

    Knative counts requests, whatever functions they are for: `containerConcurrency` is 0, since the platform in the pod
    has each function's own limits, and pods are added where one carries more than its target.

    Raises:
        InvalidSpec: a value cannot be deployed; names the option.
        SettingError: a variable is the pool's own, or a secret is not written as it should be.
    """
    for name in _OWN:
        if name in pool.env:
            raise SettingError(f"{name} is set by the pool itself; take it out of --env")
    label = ServiceSpec(name=pool.name, image=pool.image, namespace=pool.namespace).label
    token = SecretRef(name=token_secret(label), key=settings.TOKEN, env=settings.TOKEN)
    return ServiceSpec(
        name=pool.name,
        namespace=pool.namespace,
        image=pool.image,
        command=("faas",),
        args=("up", "--host", "0.0.0.0", "--port", str(PORT), "--functions", pool.functions),
        env={
            **pool.env,
            settings.HOME: _HOME,
            settings.MEMORY: str(memory_bytes(pool.memory)),
            settings.LAME_DUCK: str(LAME_DUCK_S),
        },
        secrets=(token, *(secret(text) for text in dict.fromkeys(pool.secrets))),
        resources=Resources(cpu=pool.cpu, memory=pool.memory, num_gpus=pool.num_gpus, gpu_kind=pool.gpu_kind),
        scaling=Scaling(
            min_instances=pool.min_instances,
            max_instances=pool.max_instances,
            target_inputs=pool.target_inputs,
            max_inputs=0,
            scaledown_window_s=pool.scaledown_window_s,
        ),
        timeouts=Timeouts(timeout_s=pool.timeout_s, startup_timeout_s=pool.startup_timeout_s),
        port=PORT,
        labels={"app.kubernetes.io/component": COMPONENT},
        service_account=pool.service_account,
    )


def memory_bytes(limit: str) -> int:
    """Return what the functions of a pod may hold together, the share that a platform takes of a machine.

    It is said rather than left to the platform, which cannot see its limit where control groups are hidden from it.

    Raises:
        InvalidSpec: it is no amount of memory.
    """
    return int(quantity.parse("memory", quantity.memory("memory", limit)) * Fraction(str(DEFAULT_SHARE)))
