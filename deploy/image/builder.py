"""Images by a program that builds Dockerfiles: docker, podman or buildah, the first of them that works here."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.image.errors import NoBuilder

ORDER = ("docker", "podman", "buildah")

_ASK = {"docker": ("version", "--format", "{{.Server.Version}}"), "podman": ("info",), "buildah": ("info",)}
_ANSWER_WITHIN_S = 20.0
_WITHOUT = "install one of them, or have none built: faas image runtime --base python:3.11-slim --to REFERENCE"


def find(wanted: str | None = None) -> str:
    """The first of docker, podman and buildah that answers, or the one `wanted`.

    A docker without its daemon does not answer.

    Raises:
        NoBuilder: none does; says of each why.
    """
    reasons = []
    for program in (wanted,) if wanted is not None else ORDER:
        reason = _trouble(program)
        if reason is None:
            return program
        reasons.append(f"{program} {reason}")
    raise NoBuilder(f"no program here can build an image: {', '.join(reasons)}", _WITHOUT)


def build_command(
    program: str, dockerfile: Path, context: Path, *, tag: str, arguments: Mapping[str, str]
) -> list[str]:
    """The words of a build; the three programs take the same."""
    options = [word for name, value in sorted(arguments.items()) for word in ("--build-arg", f"{name}={value}")]
    return [program, "build", "--file", str(dockerfile), "--tag", tag, *options, str(context)]


def run(command: Sequence[str]) -> None:
    """Run a program that says itself what it does. Raises NoBuilder where it fails."""
    try:
        status = subprocess.run(command, stdin=subprocess.DEVNULL).returncode
    except OSError as error:
        raise NoBuilder(f"{command[0]} cannot be run: {error.strerror}", _WITHOUT) from None
    if status != 0:
        raise NoBuilder(f"{command[0]} {command[1]} ended with status {status}", "see what it said above")


def _trouble(program: str) -> str | None:
    """Why a program is of no use, None where it is."""
    found = shutil.which(program)
    if found is None:
        return "is not installed"
    try:
        asked = subprocess.run(
            [found, *_ASK.get(program, ("--version",))],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_WITHIN_S,
        )
    except subprocess.TimeoutExpired:
        return f"does not answer within {_ANSWER_WITHIN_S:g} s"
    except OSError as error:
        return f"cannot be run ({error.strerror})"
    if asked.returncode == 0:
        return None
    said = (asked.stderr or asked.stdout).strip().splitlines()
    return f"does not work ({said[-1][:160] if said else f'status {asked.returncode}'})"
