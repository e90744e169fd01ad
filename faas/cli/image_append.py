"""`faas image append`: files on top of an image, without a daemon."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from faas.cli import listing, pairs, progress, pushed, registries
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.clock import monotonic

if TYPE_CHECKING:
    from deploy.image import File


@click.command("append")
@click.argument("base")
@click.option("--to", required=True, metavar="REFERENCE", help="Where the image is to be.")
@click.option("--add", metavar="PATH:/IN/IMAGE", multiple=True, help="A file or folder; each becomes a layer.")
@click.option("--entrypoint", help="What is started, without a shell: words as in one.")
@click.option("--command", "cmd", help="The words after that.")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable.")
@click.option("--label", metavar="NAME=VALUE", multiple=True, help="A label.")
@click.option("--user", help="Who it runs as, in numbers: 65532:65532.")
@click.option("--workdir", help="The folder that it is started in.")
@registries.platform_option
@registries.options
@listing.option
def command(
    base: str,
    to: str,
    add: tuple[str, ...],
    entrypoint: str | None,
    cmd: str | None,
    env: tuple[str, ...],
    label: tuple[str, ...],
    user: str | None,
    workdir: str | None,
    platform: str,
    insecure: tuple[str, ...],
    ca_file: Path | None,
    as_json: bool,
) -> None:
    """Push BASE with files on top as another image. `scratch` is the BASE of nothing.

    The same files give the same image, and what the registry has is not sent.
    """
    from deploy.image import Changes, LayerCache, Platform, append  # httpx, which most commands do without

    changes = Changes(
        entrypoint=None if entrypoint is None else tuple(shlex.split(entrypoint)),
        command=None if cmd is None else tuple(shlex.split(cmd)),
        env=pairs.read("--env", env),
        labels=pairs.read("--label", label),
        user=user,
        workdir=workdir,
    )
    begun, kept = monotonic(), LayerCache(registries.cache() / "layers")
    with registries.failures(), progress.steps() as step:
        step("packing")
        layers = [kept.of_files(_files(one), created_by=f"faas image append --add {one}") for one in add]
        made = append(
            base,
            to,
            layers,
            changes=changes,
            platform=Platform.parse(platform),
            connection=registries.connection(insecure, ca_file),
            progress=registries.transfers(step),
        )
    pushed.show(made, monotonic() - begun, as_json=as_json)


def _files(added: str) -> list[File]:
    from deploy.image import File, layer

    source, colon, at = added.rpartition(":")
    if not colon:
        raise Failure(
            f"--add {added}: does not say where in the image", f"write --add {added}:/IN/IMAGE", CALL_WAS_WRONG
        )
    if not Path(source).exists():
        raise Failure(f"--add {added}: there is no {source}", "write PATH:/IN/IMAGE", CALL_WAS_WRONG)
    path = Path(source)
    if path.is_dir():
        return list(layer.of_folder(path, at))
    return [File(at, path, 0o755 if path.stat().st_mode & 0o100 else 0o644)]
