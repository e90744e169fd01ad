"""The hot path of a function with versions: a call may name one, and its answer says which it came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from faas.engine.versions.lanes import Asked as Wanted
from faas.engine.versions.lanes import VersionedCall
from faas.engine.versions.policies import number_of
from faas.errors import BadLabel
from faas.messages import Call
from faas.server.answer import Pair
from faas.server.invoke import Asked, Invoke

VERSION: Final = b"x-model-version"
LABEL: Final = b"x-model-label"


def wanted_by(headers: Mapping[bytes, bytes]) -> Wanted | None:
    """Return the version or the label that a request names, if it names one.

    Raises:
        BadLabel: it names both, or a version that is no number.
    """
    version, label = headers.get(VERSION), headers.get(LABEL)
    if version is None:
        return None if label is None else Wanted(label=label.decode("latin-1").strip())
    if label is not None:
        raise BadLabel("X-Model-Version and X-Model-Label: send one of them")
    number = number_of(version.decode("latin-1").strip())
    if number is None:
        raise BadLabel(f"X-Model-Version: {version.decode('latin-1')!r} is no number of a version")
    return Wanted(version=number)


class VersionedInvoke(Invoke):
    """Answers the calls of one endpoint."""

    CALL = VersionedCall

    def _call(self, kwargs: dict[str, Any], asked: Asked) -> Call:
        wanted = wanted_by(asked.headers)
        call = super()._call(kwargs, asked)
        assert isinstance(call, VersionedCall)
        call.asked = wanted
        call.context.model_version = ""
        return call

    def _cost(self, call: Call | None, asked: Asked) -> list[Pair]:
        """Return the headers with the number of the version that answered; it is in none where no version did."""
        version = "" if call is None else call.context.model_version
        said = [pair for pair in super()._cost(call, asked) if pair[0] != VERSION]
        return [*said, (VERSION, version.encode())] if version else said
