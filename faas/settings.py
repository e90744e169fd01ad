"""What the environment says. Nothing else in this package reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from faas.errors import SettingError
from faas.quantities import parse_bytes
from faas.spec import KEEP_ALIVE_MODES, LOAD_MODES, KeepAliveMode, LoadMode

_T = TypeVar("_T")

HOME = "FAAS_HOME"
URL = "FAAS_URL"
TOKEN = "FAAS_TOKEN"
PLATFORM_SOCKET = "FAAS_PLATFORM_SOCKET"
LAME_DUCK = "FAAS_LAME_DUCK_S"
BUNDLE = "FAAS_BUNDLE"
PORT = "PORT"
DEBUG = "FAAS_DEBUG"
NUM_THREADS = "OMP_NUM_THREADS"
SNAPSHOT_CACHE_BYTES = "FAAS_SNAPSHOT_CACHE_BYTES"
SNAPSHOT_LOAD = "FAAS_SNAPSHOT_LOAD"
MEMORY = "FAAS_MEMORY"
KEEP_ALIVE = "FAAS_KEEP_ALIVE"
SCALE_TO_ZERO_GRACE = "FAAS_SCALE_TO_ZERO_GRACE_S"
SNAPSHOT_DIR = "FAAS_SNAPSHOT_DIR"
SNAPSHOT_URI = "FAAS_SNAPSHOT_URI"
IMAGE = "FAAS_IMAGE"
BASE_IMAGE = "FAAS_BASE_IMAGE"
STORE = "FAAS_STORE"
NAMESPACE = "FAAS_NAMESPACE"
INGRESS = "FAAS_INGRESS"
KUBECONFIG = "KUBECONFIG"

_S3_PLACES = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_S3_ADDRESSING_STYLE",
    "AWS_NO_SIGN_REQUEST",
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY", re.IGNORECASE)
_SHORTEST_SECRET = 8


@dataclass(frozen=True)
class Settings:
    """The environment's part of the configuration.

    `home` holds snapshots, platform state, logs and sockets. `url` is where functions are called when no platform is
    told of otherwise, and `token` is what its control interface there asks for; `platform_socket` is the activator's
    Unix socket, set for whatever runs inside a platform.
    `lame_duck_s` is how long an instance that was told to stop still takes calls, for proxies slow to hear of it; None
    leaves it to whoever serves. `bundle` is what `faas serve` serves where it is told of no target, a bundle's folder
    or address, and `port` the port of that, as platforms of containers set it.
    `snapshot_cache_bytes` is what the local snapshot store may hold before the least recently used go; None: no limit.
    `snapshot_load` is how snapshots come into memory, whatever the functions say; None leaves it to them.
    `snapshot_dir` is the folder of the local snapshot store, where it is not in `home`; `snapshot_uri` the snapshot in
    S3 of a function that has none here.
    `num_threads` is what a thawed onnxruntime session gets, which does not read OMP_NUM_THREADS itself; None: its own
    choice.
    `memory_bytes` is what a platform may hold; None: a share of the machine's. `keep_alive` is how idle functions are
    kept warm there, whatever they say; None leaves it to them. `scale_to_zero_grace_s` is Knative's grace before zero.
    `image_repository` is what the images of deployed functions are named below, `base_image` what they are put on,
    `store` the place in S3 of their bundles and snapshots, `namespace` that of their services on a cluster.
    `ingress` is the URL at which a cluster's functions are called whose names are in no DNS.
    `s3_places` are the variables that say where S3 is, by name; none of them is a credential.
    """

    home: Path
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    platform_socket: str | None = None
    lame_duck_s: float | None = None
    bundle: str | None = None
    port: int | None = None
    debug: bool = False
    snapshot_cache_bytes: int | None = None
    snapshot_load: LoadMode | None = None
    num_threads: int | None = None
    snapshot_dir: Path | None = None
    snapshot_uri: str | None = None
    memory_bytes: int | None = None
    keep_alive: KeepAliveMode | None = None
    scale_to_zero_grace_s: float = 0.0
    image_repository: str | None = None
    base_image: str | None = None
    store: str | None = None
    namespace: str | None = None
    ingress: str | None = None
    s3_places: Mapping[str, str] = field(default_factory=dict)

    @property
    def snapshots(self) -> Path:
        """The folder of the local snapshot store."""
        return self.snapshot_dir or self.home / "snapshots"

    @property
    def environments(self) -> Path:
        """The folder of the environments of functions with requirements that this interpreter does not meet."""
        return self.home / "environments"

    @property
    def bundles(self) -> Path:
        """The folder of bundles that were fetched."""
        return self.home / "bundles"

    @property
    def logs(self) -> Path:
        """The folder of the functions' logs."""
        return self.home / "logs"

    @property
    def run(self) -> Path:
        """The folder of sockets and of the running platform's record."""
        return self.home / "run"


def read(environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings that `environ` holds.

    Raises:
        SettingError: a variable holds something that is not what it should be.
    """
    home = environ.get(HOME) or _user_data()
    budget = environ.get(SNAPSHOT_CACHE_BYTES, "").strip()
    folder = environ.get(SNAPSHOT_DIR)
    memory = environ.get(MEMORY, "").strip()
    return Settings(
        home=Path(home).expanduser().absolute(),
        url=environ.get(URL) or None,
        token=environ.get(TOKEN) or None,
        platform_socket=environ.get(PLATFORM_SOCKET) or None,
        lame_duck_s=_seconds(environ, LAME_DUCK) if environ.get(LAME_DUCK, "").strip() else None,
        bundle=environ.get(BUNDLE, "").strip() or None,
        port=_port(environ),
        debug=environ.get(DEBUG, "") not in ("", "0", "false", "no"),
        num_threads=_num_threads(environ),
        snapshot_load=_one_of(environ, SNAPSHOT_LOAD, LOAD_MODES),
        memory_bytes=parse_bytes(memory, MEMORY) if memory else None,
        keep_alive=_one_of(environ, KEEP_ALIVE, KEEP_ALIVE_MODES),
        scale_to_zero_grace_s=_seconds(environ, SCALE_TO_ZERO_GRACE),
        snapshot_dir=Path(folder).expanduser().absolute() if folder else None,
        snapshot_uri=_s3(environ, SNAPSHOT_URI, "prefix/NAME"),
        snapshot_cache_bytes=parse_bytes(budget, SNAPSHOT_CACHE_BYTES) if budget else None,
        image_repository=environ.get(IMAGE, "").strip().rstrip("/") or None,
        base_image=environ.get(BASE_IMAGE, "").strip() or None,
        store=_s3(environ, STORE, "prefix"),
        namespace=environ.get(NAMESPACE, "").strip() or None,
        ingress=environ.get(INGRESS, "").strip() or None,
        s3_places={name: environ[name] for name in _S3_PLACES if environ.get(name)},
    )


def names_cluster(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether something says which cluster is meant: a kubeconfig, or the pod that this runs in."""
    if environ.get(KUBECONFIG, "").strip(os.pathsep) or "KUBERNETES_SERVICE_HOST" in environ:
        return True
    home = environ.get("HOME")
    return home is not None and Path(home, ".kube", "config").is_file()


def secrets(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that hold what is a secret by their names: value -> name."""
    return {value: name for name, value in environ.items() if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET}


def _user_data() -> str:
    import platformdirs  # nothing to an instance, which is told

    return platformdirs.user_data_dir("faas", appauthor=False)


def _num_threads(environ: Mapping[str, str]) -> int | None:
    """Read the count as OpenMP does, the first of a list with one a nesting level; None is nonsense, as there."""
    first = environ.get(NUM_THREADS, "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def _port(environ: Mapping[str, str]) -> int | None:
    """Read the port for a container; what is no port is another program's business: Kubernetes' links have URLs."""
    text = environ.get(PORT, "").strip()
    return int(text) if text.isdecimal() and int(text) < 65_536 else None


def _s3(environ: Mapping[str, str], name: str, below: str) -> str | None:
    text = environ.get(name, "").strip().rstrip("/")
    if text and not text.startswith("s3://"):
        raise SettingError(f"{name}={text!r}: must be s3://bucket/{below}")
    return text or None


def _one_of(environ: Mapping[str, str], name: str, choices: tuple[_T, ...]) -> _T | None:
    text = environ.get(name, "").strip()
    for choice in choices:
        if text == choice:
            return choice
    if text:
        raise SettingError(f"{name}={text!r}: must be one of {', '.join(map(str, choices))}")
    return None


def _seconds(environ: Mapping[str, str], name: str) -> float:
    text = environ.get(name, "").strip() or "0"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise SettingError(f"{name}={text!r}: must be a number of seconds of at least 0")
    return value
