"""What a function needs to have installed, checked against this interpreter's own environment."""

from __future__ import annotations

from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement

from faas.errors import SettingError
from faas.preparation import distribution_version


def unmet(requirements: Iterable[str]) -> list[str]:
    """Return, for each requirement that does not hold here, what is there instead: `torch>=2 (1.9 is installed)`.

    Raises:
        SettingError: one is no requirement as pip takes them.
    """
    missing = []
    for text in requirements:
        requirement = _parsed(text)
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        version = distribution_version(requirement.name)
        if version is None:
            missing.append(f"{text} (not installed)")
        elif not requirement.specifier.contains(version, prereleases=True):
            missing.append(f"{text} ({version} is installed)")
    return missing


def _parsed(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise SettingError(f"requirements has {text!r}, which pip would not take: {error}") from None
