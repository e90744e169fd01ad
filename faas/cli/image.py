"""`faas image`: the images that functions run in, with a daemon and without."""

from __future__ import annotations

import click

from faas.cli import image_append, image_build, image_inspect, image_push, image_runtime


@click.group()
def command() -> None:
    """Make, copy and inspect images of containers."""


command.add_command(image_runtime.command)
command.add_command(image_append.command)
command.add_command(image_push.command)
command.add_command(image_inspect.command)
command.add_command(image_build.command)
