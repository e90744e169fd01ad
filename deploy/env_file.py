"""Values for a secret as people give them: `NAME=VALUE` words, files, and the lines of an `.env` file."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from deploy import checks
from deploy.errors import InvalidSpec

_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_MAX_BYTES = 1024 * 1024  # of a Kubernetes secret, all its values together


def literals(words: Iterable[str]) -> dict[str, bytes]:
    """`('TOKEN=abc',)` as values; the value is taken as it stands, an equals sign in it too."""
    found: dict[str, bytes] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:  # never the word itself: it may be the secret
            raise InvalidSpec("secret", key[:3] + "...", "has no equals sign", "write NAME=VALUE")
        _put(found, key, value.encode())
    return checked(found)


def files(words: Iterable[str]) -> dict[str, bytes]:
    """`('cert.pem', 'key=server.key')` as values: the bytes of files, by their own names or by those given."""
    found: dict[str, bytes] = {}
    for word in words:
        key, equals, path = word.partition("=")
        _put(found, key if equals else Path(word).name, read(Path(path if equals else word)))
    return checked(found)


def parse(text: str) -> dict[str, bytes]:
    """The lines of an `.env` file: `NAME=VALUE`, with `export` before it or quotes around the value if one likes.

    Single quotes keep the value as it is; inside double ones `\\n`, `\\"` and `\\\\` have their usual meaning. Without
    quotes a value ends at ` #` or the end of the line, and nothing in it is expanded.
    """
    found: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip().removeprefix("export ").strip()
        if not stripped or stripped.startswith("#"):
            continue
        key, equals, value = stripped.partition("=")
        if not equals:
            raise InvalidSpec("secret", f"line {number}", "has no equals sign", "write NAME=VALUE on each line")
        _put(found, key.strip(), _unquoted(value.strip(), number).encode())
    return checked(found)


def read(path: Path) -> bytes:
    """The bytes of a file; raises `InvalidSpec` naming it where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as failed:
        raise InvalidSpec("secret", str(path), f"cannot be read: {failed.strerror}", "give a file") from failed


def checked(values: dict[str, bytes]) -> dict[str, bytes]:
    """`values`, once Kubernetes takes them."""
    for key in values:
        if not _KEY.fullmatch(key):
            raise InvalidSpec("secret", key, "is not a key of a secret", "use letters, digits, '-', '_' and '.'")
    if (total := sum(map(len, values.values()))) > _MAX_BYTES:
        raise InvalidSpec("secret", f"{total} bytes", "is more than a secret holds", "keep it under 1 MiB")
    return values


def notes(name: str, values: Mapping[str, bytes]) -> list[str]:
    """What people may not expect of a secret's values as variables of a function, in sentences."""
    found = []
    for key, value in sorted(values.items()):
        if not checks.is_env_name(key):
            found.append(
                f"{key} is no name of a variable: a function that names {name} whole may not get it; name the key, "
                f"as in secrets=['VARIABLE={name}/{key}']"
            )
        if value.endswith(b"\n") and b"\n" not in value[:-1]:
            found.append(f"the value of {key} ends with a line feed, which headers and passwords do not take")
    return found


def _put(found: dict[str, bytes], key: str, value: bytes) -> None:
    if key in found:
        raise InvalidSpec("secret", key, "is given twice", "give each key once")
    found[key] = value


def _unquoted(value: str, line: int) -> str:
    quote = value[:1]
    if quote not in ("'", '"'):
        return re.split(r"\s+#", value, maxsplit=1)[0]
    pattern = r"'([^']*)'\s*(#.*)?" if quote == "'" else r'"((?:[^"\\]|\\.)*)"\s*(#.*)?'
    match = re.fullmatch(pattern, value)
    if match is None:
        raise InvalidSpec("secret", f"line {line}", "has a quote that does not end", "close it on the same line")
    if quote == "'":
        return match[1]
    return re.sub(r"\\(.)", lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), match[1])
