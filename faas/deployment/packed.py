"""A target's functions made ready and packed, as they are before any of it goes anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from faas import bundle, prepare
from faas.bundle import Bundle
from faas.deployment import bundling, described
from faas.deployment.plan import Places, Plan, Shipping, plan, shipping
from faas.errors import SettingError
from faas.preparation import Preparation, Preparations
from faas.spec import Calls
from faas.targets import Target
from faas.tasks import Waiting
from snapshot.s3_address import is_s3

Step = Callable[[str], None]


@dataclass(frozen=True)
class Packed:
    """One function: its `bundle` in `folder`, how it is to run, and what is known of it.

    `revision` is the short name of its code, settings and state.
    """

    bundle: Bundle
    folder: Path
    plan: Plan
    revision: str
    preparation: Preparation | None

    @property
    def name(self) -> str:
        """The function's name."""
        return self.bundle.name

    @property
    def target(self) -> str:
        """What names the function: its file or module, and its name there."""
        return self.bundle.target if self.preparation is None else self.preparation.description.target

    @property
    def digest(self) -> str | None:
        """The identity of its frozen state, None where it has none."""
        return None if self.preparation is None or self.preparation.snapshot is None else self.preparation.digest

    @property
    def starts_soon(self) -> bool:
        """Whether its instances start in less than the second after which a kubelet looks again.

        So do those that have their state at hand and no torch to import, unless their author gives them longer than
        others to start.
        """
        found = self.preparation
        if found is None or found.snapshot is None or self.plan.shipping.kind != "image":
            return False
        if found.description.startup_timeout_s > Calls().startup_timeout_s:
            return False
        return all(name.partition(".")[0] != "torch" for name in found.imports)

    @property
    def notes(self) -> list[str]:
        """What its user should know, in sentences."""
        return [*self.plan.shipping.notes, *self._left_behind(), *described.notes(self.bundle), *self.bundle.notes]

    def _left_behind(self) -> list[str]:
        place = None if self.preparation is None else self.preparation.versions
        if place is None or is_s3(place):
            return []
        return [
            f"the numbered versions of {self.name} stay on this machine; instances of a cluster follow those in a "
            "store in S3: Versions(source='s3://bucket/prefix/NAME')"
        ]


class _Packed(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def target(self) -> str: ...


P = TypeVar("P", bound=_Packed)


def distinct(found: Iterable[P]) -> list[P]:
    """Return each function once, however many targets name it.

    Raises:
        SettingError: two have one name, and would take each other's place.
    """
    known: dict[str, P] = {}
    for one in found:
        other = known.setdefault(one.name, one)
        if other.target != one.target:
            raise SettingError(
                f"two functions are called {one.name!r}: {other.target} and {one.target}; "
                "give one of them another name=..."
            )
    return list(known.values())


async def packed(target: str, places: Places, *, store: Path, scratch: Path, step: Step) -> list[Packed]:
    """Make the functions of a target ready, where they are not, and pack each into a folder below `scratch`.

    `store` is this machine's folder of snapshots.

    Raises:
        NotPrepared: a function's code failed, or something of it cannot travel.
        TargetError: there is no such target.
        SettingError: there is nowhere for it to go.
    """
    async with bundling.ahead() as packer:
        made = await prepare.prepare(target, store, progress=step)
        return [await _packed(one, places, scratch / one.name, packer=packer, step=step) for one in made]


async def looked_at(target: str, places: Places, *, store: Path, scratch: Path, step: Step) -> Packed:
    """Pack the one function that a target names as it is, without making it ready: to see what it asks for.

    Raises what `packed` raises.
    """
    meant = Target.of(target).text
    pythons = [known.interpreter for known in Preparations(store).fresh(meant).values()]
    task = bundling.Task(target=meant, folder=str(scratch / "bundle"), verify=False)
    done = await bundling.run(task, step, python=pythons[0] if pythons else None)
    made = bundle.read(scratch / "bundle", here=False)
    return Packed(made, scratch / "bundle", _plan(places, made, Shipping()), done.revision, None)


async def _packed(preparation: Preparation, places: Places, folder: Path, *, packer: Waiting, step: Step) -> Packed:
    how = shipping(places, preparation.name, None if preparation.snapshot is None else preparation.state_bytes)
    task = bundling.Task(
        target=preparation.description.target,
        folder=str(folder),
        preparation=msgspec.structs.replace(preparation, versions=None),
        with_snapshot=how.kind == "image",
    )
    done = await bundling.run(task, step, python=preparation.interpreter, ahead=packer)
    made = bundle.read(folder, here=False)
    return Packed(made, folder, _plan(places, made, how), done.revision, preparation)


def _plan(places: Places, made: Bundle, how: Shipping) -> Plan:
    return plan(places, made.name, how, base=made.spec["image"], version=described.version())
