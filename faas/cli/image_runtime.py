"""`faas image runtime`: the image that functions run in, without a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from faas import modules
from faas.cli import listing, progress, pushed, registries
from faas.cli.failure import CALL_WAS_WRONG, Failure
from faas.clock import monotonic

_PINNED: Final = "constraints.txt"


@click.command("runtime")
@click.option("--base", metavar="IMAGE", help="An image with Python, such as python:3.11-slim.")
@click.option(
    "--from-rootfs",
    type=click.Path(exists=True, path_type=Path),
    help="In its place: a folder with a root file system that has Python, or a tar of one.",
)
@click.option("--to", required=True, metavar="REFERENCE", help="Where the image is to be.")
@click.option("--extra", "extras", metavar="NAME", multiple=True, help="An extra of faas: onnx, torch, s3, grpc, ...")
@click.option("--require", metavar="REQUIREMENT", multiple=True, help="A package that all functions there may use.")
@click.option(
    "--constraints",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Versions to hold to, as pip reads them; default: constraints.txt of a checkout.",
)
@registries.platform_option
@registries.options
@listing.option
def command(
    base: str | None,
    from_rootfs: Path | None,
    to: str,
    extras: tuple[str, ...],
    require: tuple[str, ...],
    constraints: Path | None,
    platform: str,
    insecure: tuple[str, ...],
    ca_file: Path | None,
    as_json: bool,
) -> None:
    """Put this framework and its extras on a base, and push that as the image for functions to run in.

    Wheels come from where pip finds them, for the machine of the image. What has not changed is neither made nor sent
    again.
    """
    from deploy.image import Platform  # httpx, which most commands do without
    from faas.deployment import runtime_image

    if (base is None) == (from_rootfs is None):
        raise Failure("the image needs one base", "give --base IMAGE or --from-rootfs PATH", CALL_WAS_WRONG)
    begun = monotonic()
    with registries.failures(), progress.steps() as step:
        recipe = runtime_image.Recipe(
            extras=extras,
            requirements=require,
            constraints=_lines(constraints or modules.HOME / _PINNED),
            platform=Platform.parse(platform),
        )
        made = runtime_image.push(
            from_rootfs or base or "",
            to,
            recipe,
            cache=registries.cache(),
            connection=registries.connection(insecure, ca_file),
            progress=registries.transfers(step),
            step=step,
        )
    pushed.show(made, monotonic() - begun, as_json=as_json)


def _lines(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return ()
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return tuple(line for line in lines if line)
