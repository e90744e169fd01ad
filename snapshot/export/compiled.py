"""What computes for a module that was compiled ahead of time: its package, loaded by torch and nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from snapshot.export.inputs import Input, fit
from snapshot.reducers import KeptFiles


class PackageBackend:
    """An AOTInductor package that takes the arrays of a call in the order of `inputs`."""

    FILE: ClassVar = "model.pt2"

    def __init__(self, package: Path, inputs: tuple[Input, ...]) -> None:
        import torch._inductor  # local: whatever only looks at stand-ins does without

        self._package = package
        self._inputs = inputs
        self._model = torch._inductor.aoti_load_package(str(package))

    def __call__(self, given: Mapping[str, Any]) -> list[Any]:
        """Answer one call."""
        import torch

        with torch.no_grad():
            arrays = (fit(declared, given[declared.name]) for declared in self._inputs)
            return list(self._model(*map(torch.as_tensor, arrays)))

    def __reduce__(self) -> tuple[Any, tuple[KeptFiles, tuple[Input, ...]]]:
        return _load, (KeptFiles({self.FILE: self._package}), self._inputs)


def _load(folder: Path, inputs: tuple[Input, ...]) -> PackageBackend:
    return PackageBackend(folder / PackageBackend.FILE, inputs)
