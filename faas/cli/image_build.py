"""`faas image build`: the image that functions run in, by docker, podman or buildah."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

import click

from faas import modules
from faas.cli import registries

_PINNED: Final = "constraints.txt"


@click.command("build")
@click.argument("kind", type=click.Choice(["cpu", "cuda"]))
@click.option("--tag", required=True, metavar="REFERENCE", help="What the image is called.")
@click.option("--extra", "extras", metavar="NAME", multiple=True, help="An extra of faas, in place of the usual ones.")
@click.option("--python", metavar="VERSION", help="The version of Python; default: 3.11.")
@click.option("--with", "wanted", type=click.Choice(["docker", "podman", "buildah"]), help="The program to build with.")
@click.option("--push", is_flag=True, help="Push it, too, by the same program.")
def command(kind: str, tag: str, extras: tuple[str, ...], python: str | None, wanted: str | None, push: bool) -> None:
    """Build deploy/Dockerfile.cpu or .cuda with docker, podman or buildah, the first that works here.

    Where none does, faas image runtime makes the same image without.
    """
    from deploy.image import builder
    from faas.deployment import own_wheel

    with registries.failures(), tempfile.TemporaryDirectory(prefix="faas-build-") as scratch:
        program, context = builder.find(wanted), Path(scratch)
        (context / "dist").mkdir()
        own_wheel.write(context / "dist")
        pinned = modules.HOME / _PINNED
        shutil.copy(pinned, context) if pinned.is_file() else (context / _PINNED).touch()
        given = {"EXTRAS": ",".join(extras), "PYTHON": python}
        arguments = {name: value for name, value in given.items() if value}
        dockerfile = modules.HOME / "deploy" / f"Dockerfile.{kind}"
        builder.run(builder.build_command(program, dockerfile, context, tag=tag, arguments=arguments))
        if push:
            builder.run([program, "push", tag])
    click.echo(tag)
