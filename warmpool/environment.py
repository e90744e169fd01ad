"""What a zygote is keyed by, and what every worker of it has in common."""

import sys
from dataclasses import dataclass, replace

from warmpool.errors import EnvironmentInvalid


@dataclass(frozen=True)
class Preload:
    """What is done once and ahead of need, `entry(payload)`: in a *hot* zygote for all its workers, or in a parked one.

    In a zygote it may make nothing but memory: a thread or a device context cannot be forked.
    """

    entry: str
    """`package.module:function`."""
    payload: bytes = b""


@dataclass(frozen=True)
class Environment:
    """The interpreter, its variables and paths, and the modules a zygote has imported. Equal ones share a zygote.

    With a `preload` it is that of a hot zygote, which is forked from the zygote of the same environment without one.
    """

    modules: tuple[str, ...] = ()
    """Imported in this order."""
    python: str = sys.executable
    env: tuple[tuple[str, str], ...] = ()
    """Variables set over those of this process, as pairs."""
    sys_path: tuple[str, ...] = ()
    """Folders put at the front of `sys.path` before the imports."""
    preload: Preload | None = None
    park: Preload | None = None
    """What each parked worker does while nobody needs it yet, such as to create its device context."""

    def __post_init__(self) -> None:
        for name in self.modules:
            if not all(part.isidentifier() for part in name.split(".")):
                raise EnvironmentInvalid(f"{name!r} is not the name of a module; give dotted names such as 'torch.nn'")

    @property
    def base(self) -> "Environment":
        """The same without the preload."""
        return replace(self, preload=None)
