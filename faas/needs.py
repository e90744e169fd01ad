"""What a target needs that this interpreter lacks: as its functions say, or its file where that cannot be loaded."""

from __future__ import annotations

from collections.abc import Iterable

from faas import environments, requirements
from faas.errors import TargetError
from faas.function import Function
from faas.targets import Target


def of_functions(functions: Iterable[Function]) -> tuple[str, ...]:
    """Return all that these functions require, where some of it is not here; else nothing.

    Raises:
        SettingError: a requirement is none as pip takes them.
    """
    needed = tuple(dict.fromkeys(text for function in functions for text in function.spec.requirements))
    return needed if requirements.unmet(needed) else ()


def of_bundle(target: str) -> tuple[str, ...]:
    """Return all that a target's function requires where that is a bundle, which says so before it is loaded, and some
    of it is not here; else nothing.

    Raises:
        BundleError: it is no bundle, not whole, or not as it was made.
    """
    meant = Target.of(target)
    if not meant.is_bundle:
        return ()
    from faas import bundle  # nothing to whoever runs plain files

    needed = bundle.read(meant.folder, here=False).requirements
    return needed if requirements.unmet(needed) else ()


def of_file(target: str, error: TargetError) -> tuple[str, ...]:
    """Return what a target's file says that its functions require, where some of it is not here.

    Raises:
        TargetError: `error`, by which the target cannot be loaded, has another reason.
    """
    if not isinstance(error.__cause__, ImportError):
        raise error
    paths = [path for path in Target.of(target).sources if path.is_file()]
    named = requirements.written_in(paths[0].read_text(errors="replace")) if paths else ()
    if requirements.unmet(named):
        return named
    here = environments.current()
    recipe = here.recipe() if here is not None else None
    if recipe is None:
        raise _pointed(error, error.__cause__) from error.__cause__
    held = ", ".join(recipe.requirements)
    raise TargetError(
        f"{error}; its environment holds faas and {held}, no more: add what is missing to requirements="
    ) from error.__cause__


def _pointed(error: TargetError, cause: ImportError) -> TargetError:
    """Return the error with where a package that is missing can be named, where it is one."""
    if not isinstance(cause, ModuleNotFoundError) or cause.name is None:
        return error
    return TargetError(
        f"{error}; install its package here, or name it in requirements=[...] of the function, which then gets an "
        "environment, and on a cluster an image, that has it"
    )
