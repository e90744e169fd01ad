"""What is told of the versions of an instance, in the forms that clients know. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from faas.engine.versions.lifecycle import Entry
from faas.engine.versions.states import State, Step

_OF_REPOSITORY: Final = {
    State.START: "LOADING",
    State.LOADING: "LOADING",
    State.AVAILABLE: "READY",
    State.UNLOADING: "UNLOADING",
    State.END: "UNAVAILABLE",
}


def status(entries: Iterable[Entry]) -> dict[str, Any]:
    """Return TensorFlow Serving's `GetModelStatusResponse` as JSON."""
    return {
        "model_version_status": [
            {
                "version": str(entry.number),
                "state": entry.step.state.name,
                "status": {"error_code": entry.code, "error_message": entry.reason or ""},
            }
            for entry in entries
        ]
    }


def index(name: str, entries: Iterable[Entry], *, ready_only: bool = False) -> list[dict[str, str]]:
    """Return Triton's repository index as JSON."""
    return [
        {
            "name": name,
            "version": str(entry.number),
            "state": _OF_REPOSITORY[entry.step.state],
            "reason": entry.reason or ("unloaded" if entry.step is Step.DISABLED else ""),
        }
        for entry in entries
        if not ready_only or entry.step is Step.READY
    ]


def overwritten(number: int) -> str:
    """Return what is said of a version whose files have changed while it is held."""
    return (
        f"the files of version {number} have changed while it is held: it is not loaded again, and may answer with "
        "half of either; give what is new a number of its own"
    )


def why_none(name: str, entries: Iterable[Entry], *, stable: int | None, where: str) -> str:
    """Return why calls that ask for no version get none; `stable` is the version of that label, `where` the source."""
    for entry in entries:
        if entry.is_aspired and entry.reason is not None and stable in (None, entry.number):
            return f"version {entry.number} of {name} cannot be loaded: {entry.reason}"
    if stable is not None:
        return f"version {stable} of {name}, where the label stable leads, is not there or not ready yet"
    return f"{name} has no version at {where}; faas snapshot create TARGET --version 1 makes one"


def overview(
    entries: Iterable[Entry], *, labels: Mapping[str, int], default: int | None, problem: str | None
) -> dict[str, Any]:
    """Return all that an instance knows of its versions: what calls get, and what each version is about to be."""
    return {
        "default": default,
        "labels": dict(labels),
        "problem": problem,
        "versions": [
            {
                "version": entry.number,
                "state": entry.step.state.name,
                "step": entry.step.value,
                "aspired": entry.is_aspired,
                "reason": entry.reason,
                "place": entry.place,
            }
            for entry in entries
        ],
    }
