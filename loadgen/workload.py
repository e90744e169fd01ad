"""What is sent: one method, URL and set of headers, and the bodies that take turns."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, repeat
from pathlib import Path
from typing import Any, Literal

import numpy as np
from yarl import URL

from loadgen.errors import SettingError

BodyOrder = Literal["cycle", "random"]

_CHUNK = 1024
_BODIES_STREAM = 1  # keeps these draws apart from those of the arrivals under the same seed
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110, 5.6.2
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")  # RFC 9110, 5.5: no other control characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The requests of a run.

    `bodies` are taken in turn ("cycle") or drawn with the run's seed ("random"); none means requests without a body.
    Raises SettingError for what no HTTP client could send.
    """

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    bodies: tuple[bytes, ...] = ()
    order: BodyOrder = "cycle"

    def __post_init__(self) -> None:
        _check_url(self.url)
        if not _TOKEN.fullmatch(self.method):
            raise SettingError(f"method is {self.method!r}; give an HTTP method such as GET or POST")
        for name, value in self.headers.items():
            if not _TOKEN.fullmatch(name) or not _FIELD_VALUE.fullmatch(value):
                raise SettingError(f"header {name!r}: {value!r} cannot be sent; give a token and a value on one line")
        if self.order not in ("cycle", "random"):
            raise SettingError(f"order is {self.order!r}; give 'cycle' or 'random'")
        if not isinstance(self.bodies, tuple) or not all(isinstance(body, bytes) for body in self.bodies):
            raise SettingError(f"bodies is {self.bodies!r:.80}; give a tuple of bytes, or use Workload.json")

    @classmethod
    def json(cls, url: str, values: Iterable[Any], **settings: Any) -> "Workload":
        """Make a workload of JSON bodies, one for each of `values`; `settings` are other fields of Workload."""
        bodies = tuple(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() for value in values)
        return cls(url=url, bodies=bodies, **_with_json_type(settings))

    @classmethod
    def from_jsonl(cls, url: str, path: Path, **settings: Any) -> "Workload":
        """Make a workload of the lines of a JSON-lines file, each sent as it stands.

        Raises SettingError for a file without lines or with one that is not JSON, OSError for one that cannot be read.
        """
        bodies = tuple(line for line in path.read_bytes().splitlines() if line.strip())
        if not bodies:
            raise SettingError(f"{path} holds no lines; give one JSON value a line")
        for number, body in enumerate(bodies, start=1):
            try:
                json.loads(body)
            except ValueError as error:
                raise SettingError(f"{path}: body {number} is not JSON ({error}); give one JSON value a line") from None
        return cls(url=url, bodies=bodies, **_with_json_type(settings))

    def take_turns(self, seed: int) -> Iterator[bytes | None]:
        """Yield the body of each request of a run, without end."""
        if not self.bodies:
            return repeat(None)
        if self.order == "cycle":
            return cycle(self.bodies)
        return self._draw(seed)

    def _draw(self, seed: int) -> Iterator[bytes]:
        generator = np.random.default_rng([seed, _BODIES_STREAM])
        while True:
            for index in generator.integers(len(self.bodies), size=_CHUNK).tolist():
                yield self.bodies[index]


def _with_json_type(settings: dict[str, Any]) -> dict[str, Any]:
    headers = dict(settings.get("headers", {}))
    if not any(name.lower() == "content-type" for name in headers):
        headers["Content-Type"] = "application/json"
    return {**settings, "headers": headers}


def _check_url(url: str) -> None:
    try:
        parsed = URL(url)
        sound = parsed.scheme in ("http", "https") and bool(parsed.host)
    except (ValueError, TypeError):
        sound = False
    if not sound:
        raise SettingError(f"url is {url!r}; give a whole one, such as http://127.0.0.1:8000/predict")
