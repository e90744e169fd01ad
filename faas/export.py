"""A handler's state in a form that needs no torch: its modules exported, and stood in for, wherever they are in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import snapshot
from faas import examples, modules
from faas.errors import named
from faas.handler import Handler, State
from faas.preparing_messages import Exported
from snapshot import paths
from snapshot.errors import NotExportable

if TYPE_CHECKING:
    import torch

    from snapshot.export.recording import Recording

FORMS: Final = ("onnx", "aoti")


def run_examples(handler: Handler) -> tuple[list[str], Recording]:
    """Return the answers to the examples, and the calls of torch modules that these, and batches of them, made.

    Raises:
        NotExportable: there are no examples, or they cannot be run in batches.
    """
    if "torch" not in sys.modules:
        raise NotExportable("setup()", "it makes no torch module, so there is nothing to export")
    from snapshot.export.recording import recording  # imports torch

    with recording() as seen:
        answers = examples.answers(handler, may_fail=False)
        if answers is None:
            raise NotExportable(
                "the decorator", "it has no warmup=[...]: modules are exported as the examples call them"
            )
        try:
            examples.run_batches(handler)
        except Exception as error:
            raise NotExportable("the examples", f"a batch of them fails: {named(error)}") from error
    return answers, seen


def export(state: State, frozen: Path, seen: Recording, *, form: str, folder: Path) -> Exported:
    """Export the modules of `state` that were called, and freeze it, as it was frozen before, with them into `folder`.

    `frozen` is the state at rest before any call: what the examples changed is not kept.
    Raises NotExportable, SnapshotError.
    """
    trails = paths.find(state, seen.calls)
    called = [module for module in seen.calls if id(module) in trails]
    if not called:
        raise NotExportable("predict()", "the examples call no torch module that setup() made")
    exported = _exporter(form)
    fresh = snapshot.thaw(frozen).state
    replacing: dict[int, object] = {}
    inputs: dict[str, dict[str, str]] = {}
    for number, module in enumerate(called):
        path = as_written(trails[id(module)])
        stand_in, inputs[path] = exported(module, seen.calls[module], path, folder.with_name(f"export-{number}"))
        replacing[id(_follow(fresh, trails[id(module)]))] = stand_in
    manifest = snapshot.freeze(fresh, folder, meta={"export": form, "modules": inputs}, replacing=replacing)
    return Exported(
        digest=manifest.digest,
        state_bytes=manifest.tensor_bytes + sum(record.num_bytes for record in manifest.files),
        later=tuple(sorted(_packages(called) | ({"torch"} if form == "onnx" else set()))),
    )


def as_written(trail: paths.Trail) -> str:
    """Return where something is in a handler's state as its own code spells it: `self.model`, `app.MODEL`."""
    if len(trail) < 2:
        return paths.as_code(trail)
    where, *rest = trail
    if where.key == "attributes":
        first, *rest = rest
        return f"self.{first.key}{paths.as_code(tuple(rest)).removeprefix(paths.ROOT)}"
    names, inside = rest[:2], tuple(rest[2:])
    return ".".join(str(step.key) for step in names) + paths.as_code(inside).removeprefix(paths.ROOT)


def _exporter(form: str) -> Callable[..., tuple[object, dict[str, str]]]:
    """Return what exports one module to a form; these import torch, and more."""
    if form == "aoti":
        from snapshot.export.aoti import export_module as to_aoti

        return to_aoti
    from snapshot.export.onnx import export_module as to_onnx

    return to_onnx


def _follow(state: Any, trail: paths.Trail) -> Any:
    one = state
    for step in trail:
        one = getattr(one, str(step.key)) if step.is_attribute else one[step.key]
    return one


def _packages(called: Iterable[torch.nn.Module]) -> set[str]:
    """Return the installed top-level packages that the classes of modules, and of the modules in them, come from."""
    homes = {type(part).__module__ for module in called for part in module.modules()}
    installed = {home for home in homes if home in sys.modules and not modules.is_users(sys.modules[home])}
    return {home.partition(".")[0] for home in installed} - {"torch", "builtins", "__main__"}
