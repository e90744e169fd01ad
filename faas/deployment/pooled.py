"""Functions put where a pool finds them: the snapshot into its store, the bundle's files, `bundle.json` last.

A pool that looks meanwhile sees what it had, or files that are not as the `bundle.json` says that is there still: that
it names, keeps what it has, and looks again when the new one is there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from faas import bundle, prepare
from faas.bundle import Bundle
from faas.bundle.errors import BadBundle
from faas.bundle.manifest import MANIFEST, decode
from faas.deployment import bundling, pool
from faas.deployment.packed import Step
from faas.deployment.published import client_of, push_snapshot
from faas.preparation import Preparation
from faas.tasks import Waiting
from snapshot.s3_address import S3Address


@dataclass(frozen=True)
class Packed:
    """A function's bundle in `folder`, that names its snapshot where the pool's store will have it."""

    bundle: Bundle
    folder: Path
    revision: str
    preparation: Preparation

    @property
    def name(self) -> str:
        """The function's name."""
        return self.bundle.name

    @property
    def target(self) -> str:
        """What names the function: its file or module, and its name there."""
        return self.preparation.description.target


@dataclass(frozen=True)
class Change:
    """What is to be sent and what is to go, by the names of files in the bundle."""

    send: tuple[str, ...]
    drop: tuple[str, ...]


async def packed(target: str, functions: str, *, store: Path, scratch: Path, step: Step) -> list[Packed]:
    """Make the functions of a target ready and pack each for the pool whose place is `functions`.

    Raises:
        NotPrepared: a function's code failed, or something of it cannot travel.
        TargetError: there is no such target.
    """
    async with bundling.ahead() as packer:
        made = await prepare.prepare(target, store, progress=step)
        return [await _packed(one, functions, scratch / one.name, packer=packer, step=step) for one in made]


async def _packed(preparation: Preparation, functions: str, folder: Path, *, packer: Waiting, step: Step) -> Packed:
    moved = preparation
    if preparation.snapshot is not None:
        address = f"{pool.store_of(functions)}/{preparation.name}@{preparation.digest}"
        moved = msgspec.structs.replace(preparation, snapshot=address)
    task = bundling.Task(target=preparation.description.target, folder=str(folder), preparation=moved)
    done = await bundling.run(task, step, python=preparation.interpreter, ahead=packer)
    return Packed(bundle.read(folder, here=False), folder, done.revision, preparation)


def put(packed: Packed, functions: str, step: Step) -> int:
    """Put a function at a pool's place; returns how many bytes were sent, 0 where all is there already.

    Raises:
        SnapshotError: S3 does not take it.
        SettingError: what S3 needs is not installed.
    """
    client = client_of(functions)
    sent_bytes = push_snapshot(packed.preparation, pool.store_of(functions), step)
    where = S3Address.parse(f"{functions}/{packed.name}")
    before = client.get(where.key(MANIFEST))
    there = {key for key, _ in client.etags(where.key(""))}
    content = (packed.folder / MANIFEST).read_bytes()
    change = difference(_digests(before), _digests(content), there)
    if before == content and not change.send:
        return sent_bytes
    step(f"putting the bundle of {packed.name} at {where}")
    for name in change.send:
        client.upload(where.key(name), packed.folder / name, lambda done: None)
        sent_bytes += packed.bundle.files[name].num_bytes
    client.put(where.key(MANIFEST), content)
    client.delete([where.key(name) for name in change.drop])
    return sent_bytes + len(content)


def remove(name: str, functions: str) -> bool:
    """Take a function from a pool's place, its `bundle.json` first; returns whether it was there.

    Raises what `put` raises.
    """
    client, where = client_of(functions), S3Address.parse(f"{functions}/{name}")
    keys = [key for key, _ in client.etags(where.key(""))]
    client.delete([where.key(key) for key in sorted(keys, key=lambda key: key != MANIFEST)])
    return bool(keys)


def difference(before: Mapping[str, str], after: Mapping[str, str], there: Collection[str]) -> Change:
    """Decide what has to be sent and what goes.

    before, after: the digests of a bundle's files; `there`: the files that lie at its place
    """
    send = [name for name, digest in after.items() if name not in there or before.get(name) != digest]
    drop = [name for name in there if name not in after and name != MANIFEST]
    return Change(tuple(sorted(send)), tuple(sorted(drop)))


def _digests(content: bytes | None) -> dict[str, str]:
    """Return the digests in a `bundle.json`; none of one that says nothing that is understood here."""
    try:
        return {} if content is None else {name: file.digest for name, file in decode(content).files.items()}
    except BadBundle:
        return {}
