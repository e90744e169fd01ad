"""Checks that the parts of a description share. Each returns its value or raises `InvalidSpec` naming the option."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from deploy import names
from deploy.errors import InvalidSpec

SNAPSHOT_DIR_ENV = "FAAS_SNAPSHOT_DIR"
SNAPSHOT_URI_ENV = "FAAS_SNAPSHOT_URI"

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_ENV = ("PORT", "K_SERVICE", "K_CONFIGURATION", "K_REVISION", SNAPSHOT_DIR_ENV, SNAPSHOT_URI_ENV)
_RESERVED_MOUNTS = ("/dev", "/dev/log")
_HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:.]+\])(:\d{1,5})?")
_REPOSITORY = re.compile(r"[a-z0-9._/-]{2,255}")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def whole(option: str, value: Any, *, least: int = 0, most: int = 2**31 - 1) -> int:
    """An int between `least` and `most`; a bool is not one, and neither is text."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        span = f"at least {least}" if most == 2**31 - 1 else f"between {least} and {most}"
        raise InvalidSpec(option, value, "is not a whole number in range", f"give a whole number of {span}")
    return value


def number(option: str, value: Any, *, least: float) -> float:
    """A finite number of at least `least`; a bool is not one, and neither is text."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
        raise InvalidSpec(option, value, "is not a number in range", f"give a finite number of at least {least:g}")
    return value


def words(option: str, value: Sequence[str]) -> tuple[str, ...]:
    """A sequence of texts as a tuple; one text alone is refused, since splitting it would need a shell."""
    if isinstance(value, str | bytes):
        raise InvalidSpec(option, value, "is one text", "give a list with one text for each word")
    as_tuple = tuple(value)
    if not all(isinstance(word, str) for word in as_tuple):
        raise InvalidSpec(option, value, "has an item that is not text", "give a list of texts")
    return as_tuple


def text_mapping(option: str, value: Mapping[str, str]) -> dict[str, str]:
    """A mapping from text to text, copied; a number is refused rather than guessed at."""
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, str):
            raise InvalidSpec(f"{option}[{key!r}]", item, "is not text", "give both the key and the value as text")
    return dict(value)


def is_env_name(text: str) -> bool:
    """Whether `text` is a name of an environment variable that every shell takes."""
    return _ENV_NAME.fullmatch(text) is not None


def env_name(option: str, value: str) -> str:
    """A name of an environment variable that every shell takes, and that nobody else sets."""
    if not is_env_name(value):
        raise InvalidSpec(option, value, "is not a name of a variable", "use letters, digits and _, no digit first")
    if value in _RESERVED_ENV:
        raise InvalidSpec(option, value, "is set by the platform", "use another name")
    return value


def object_name(option: str, value: str) -> str:
    """A name of an object in the namespace: a DNS-1123 subdomain."""
    if not names.is_subdomain(value):
        raise InvalidSpec(option, value, "is not a name of an object", "use a-z, 0-9, hyphens and dots, at most 253")
    return value


def image(option: str, value: str) -> str:
    """A reference of an image by the rules of the registry client that Knative resolves tags with.

    What stands before the first slash is a host if it holds a dot or a colon, or is `localhost`.
    """
    rest, at, digest = value.partition("@")
    host, slash, path = rest.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, path = "", rest
    repository, colon, tag = path.partition(":")
    is_named = _REPOSITORY.fullmatch(repository) and (not host or _HOST.fullmatch(host))
    if not is_named or (colon and not _TAG.fullmatch(tag)):
        if len(repository) == 1:
            what = f"has a name of one character after its registry: {repository!r}"
            raise InvalidSpec(option, value, what, "give it two or more: Knative resolves no image of a shorter name")
        remedy = "write it as registry/name:tag, in lower case"
        raise InvalidSpec(option, value, "is not a reference of an image", remedy)
    if at and not _DIGEST.fullmatch(digest):
        raise InvalidSpec(option, value, "has a digest that is not one", "write @sha256: and 64 hexadecimal digits")
    return value


def absolute_path(option: str, value: str) -> str:
    """An absolute POSIX path in its plain form, below the root."""
    parts = value.split("/")[1:]
    if not value.startswith("/") or any(part in ("", ".", "..") for part in parts):
        raise InvalidSpec(option, value, "is not an absolute path below /", "write it in full, such as /snapshot")
    return value


def mount_path(option: str, value: str) -> str:
    """An absolute path at which Knative lets a volume be mounted."""
    if absolute_path(option, value) in _RESERVED_MOUNTS:
        raise InvalidSpec(option, value, "is reserved by Knative", "mount at a folder of your own, such as /data")
    return value
