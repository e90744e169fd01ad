"""What a function needs to have installed: checked against this interpreter, or read from the function's file."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Final
from urllib.parse import SplitResult, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from faas.errors import SettingError

_VARIABLE: Final = re.compile(r"\$\{[A-Z0-9_]+\}")
"""What pip puts a variable of the environment in the place of."""


def unmet(requirements: Iterable[str]) -> list[str]:
    """Return, for each requirement that does not hold here, what is there instead: `torch>=2 (1.9 is installed)`.

    Raises:
        SettingError: one is no requirement as pip takes them.
    """
    missing = []
    for text in requirements:
        requirement = _parsed(text)
        lack = _lack(requirement) if holds(requirement) else None
        if lack is not None:
            missing.append(f"{text} ({lack})")
    return missing


def normalized(text: str) -> str:
    """Return a requirement as all who mean the same write it. Raises SettingError."""
    requirement = _parsed(text)
    requirement.name = canonicalize_name(requirement.name)
    return str(requirement)


def holds(requirement: Requirement, extra: str = "") -> bool:
    """Tell whether a requirement is one on this machine and for this Python, of a package with an extra asked for."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def with_password(requirements: Iterable[str]) -> list[str]:
    """Return the names of those that say in their address who asks for them: `a @ https://token@host/a.whl`.

    Raises:
        SettingError: one is no requirement as pip takes them.
    """
    parsed = (_parsed(text) for text in requirements)
    return [one.name for one in parsed if one.url is not None and _tells(urlsplit(one.url))]


def _tells(address: SplitResult) -> bool:
    """Tell whether an address has a secret: a user's name alone may be a token, but is none where keys are used."""
    user = None if address.scheme.endswith("ssh") else address.username
    return any(part and not _VARIABLE.fullmatch(part) for part in (user, address.password))


def written_in(source: str) -> tuple[str, ...]:
    """Return the requirements that decorators in a Python source are given, as far as they stand there in full.

    For a file that cannot be imported without them.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ()
    named = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: dict[str, None] = {}
    for value in _decorator_arguments(tree):
        value = named.get(value.id, value) if isinstance(value, ast.Name) else value
        if isinstance(value, ast.List | ast.Tuple | ast.Set):
            found |= {
                one.value: None for one in value.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
    return tuple(found)


def _decorator_arguments(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call):
                    yield from (one.value for one in decorator.keywords if one.arg == "requirements")


def _lack(requirement: Requirement) -> str | None:
    """Return what is there instead of what is required, None where it is met."""
    try:
        found = metadata.distribution(requirement.name)
    except metadata.PackageNotFoundError:
        return "not installed"
    if requirement.url is not None:
        origin = json.loads(found.read_text("direct_url.json") or "{}").get("url")
        return None if origin == requirement.url else f"{found.version} is installed, from {origin or 'an index'}"
    if not requirement.specifier.contains(found.version, prereleases=True):
        return f"{found.version} is installed"
    return _lack_of_extras(requirement, found)


def _lack_of_extras(requirement: Requirement, found: metadata.Distribution) -> str | None:
    for extra in requirement.extras:
        for text in found.requires or ():
            dependency = Requirement(text)
            if holds(dependency, extra) and not holds(dependency):
                lack = _lack(dependency)
                if lack is not None:
                    return f"of its extra {extra}, {dependency.name}: {lack}"
    return None


def _parsed(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise SettingError(f"requirements has {text!r}, which pip would not take: {error}") from None
