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

    Single quotes keep the value as it is; inside double ones `\\n`, `\\"` and `\\\\` have their usual meaning. What is
    in quotes may go over several lines. Without quotes a value ends at ` #` or the end of the line, and nothing in it
    is expanded.
    """
    found: dict[str, bytes] = {}
    lines = enumerate((line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")), start=1)
    for number, line in lines:
        stripped = line.lstrip().removeprefix("export ").lstrip()
        if not stripped or stripped.startswith("#"):
            continue
        key, equals, value = stripped.partition("=")
        if not equals:
            raise InvalidSpec("", f"line {number}", "has no equals sign", "write NAME=VALUE on each line")
        value = value.lstrip()
        while (plain := _unquoted(value, number)) is None:
            _, following = next(lines, (0, None))
            if following is None:
                raise InvalidSpec("", f"line {number}", "has a quote that does not end", "close it")
            value += f"\n{following}"
        _put(found, key.strip(), plain.encode())
    return checked(found)


def read(path: Path) -> bytes:
    """The bytes of a file; raises `InvalidSpec` naming it where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as failed:
        raise InvalidSpec("", str(path), f"cannot be read: {failed.strerror}", "give a file") from failed


def checked(values: dict[str, bytes]) -> dict[str, bytes]:
    """`values`, once Kubernetes takes them."""
    for key in values:
        if not _KEY.fullmatch(key):
            raise InvalidSpec("secret", key, "is not a key of a secret", "use letters, digits, '-', '_' and '.'")
    if (total := sum(map(len, values.values()))) > _MAX_BYTES:
        raise InvalidSpec("", f"{total} bytes", "are more than a secret holds", "keep it under 1 MiB")
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


def _unquoted(value: str, line: int) -> str | None:
    """What a value stands for; None where its quote does not end yet."""
    quote = value[:1]
    if quote not in ("'", '"'):
        return re.split(r"\s+#", value, maxsplit=1)[0].rstrip()
    match = re.match(r"'([^']*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"', value, re.DOTALL)
    if match is None:
        return None
    if not re.fullmatch(r"\s*(#.*)?", value[match.end() :]):
        raise InvalidSpec("", f"line {line}", "goes on after its quote", "put all of it in quotes")
    if quote == "'":
        return match[1]
    return re.sub(r"\\(.)", lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), match[1], flags=re.DOTALL)
