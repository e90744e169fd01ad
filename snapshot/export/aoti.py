"""A torch module compiled ahead of time by AOTInductor, kept as its package.

Imports torch, and needs a C++ compiler.
"""

import shutil
from pathlib import Path

import torch

from snapshot.errors import NotExportable
from snapshot.export.checking import compare
from snapshot.export.compiled import PackageBackend
from snapshot.export.flat import Flat, fit_to_trace, free_axes, inputs_of, quiet, why
from snapshot.export.module import ExportedModule
from snapshot.export.recording import Call, examples_of

_COMPILERS = ("g++", "clang++")


def export_module(
    module: torch.nn.Module, calls: list[Call], path: str, folder: Path
) -> tuple[ExportedModule, dict[str, str]]:
    """Compile `module`, which was called as `calls` say and is at `path` of the state, into the new folder `folder`.

    The package holds machine code for processors as this one. Returns the stand-in, which has answered each of `calls`
    as the module did (see `checking`), and its inputs in words.
    Raises NotExportable, also where there is no compiler.
    """
    if module.training:
        raise NotExportable(path, "it is in training mode: call .eval() in setup()")
    compiler = torch._inductor.config.cpp.cxx[1]
    if shutil.which(compiler) is None and not any(map(shutil.which, _COMPILERS)):
        raise NotExportable(
            path, f"compiling it needs a C++ compiler, and there is no {compiler} here: install one, or export to onnx"
        )
    signature, examples = examples_of(module, calls, path)
    folder.mkdir(parents=True)
    traced = fit_to_trace(examples)
    package = folder / PackageBackend.FILE
    try:
        with quiet(), torch.no_grad():
            program = torch.export.export(
                Flat(module, signature, traced), tuple(traced.given.values()), dynamic_shapes=free_axes(traced)
            )
            torch._inductor.aoti_compile_and_package(program, package_path=str(package))
    except Exception as error:
        raise NotExportable(path, f"torch cannot compile it: {why(error)}") from error
    inputs = inputs_of(program, traced)
    stand_in = ExportedModule(PackageBackend(package, inputs), signature)
    compare(stand_in, calls, path)
    return stand_in, {declared.name: str(declared) for declared in inputs}
