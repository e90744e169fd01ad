"""`faas image push`: an image from one place in registries to another."""

from __future__ import annotations

from pathlib import Path

import click

from faas.cli import listing, progress, pushed, registries
from faas.clock import monotonic


@click.command("push")
@click.argument("image")
@click.argument("to")
@registries.platform_option
@registries.options
@listing.option
def command(image: str, to: str, platform: str, insecure: tuple[str, ...], ca_file: Path | None, as_json: bool) -> None:
    """Copy IMAGE, as it is in a registry, to the reference TO. Only blobs that are missing there are sent.

    Within one registry nothing is sent: blobs are mounted.
    """
    from deploy.image import Platform, append  # httpx, which most commands do without

    begun = monotonic()
    with registries.failures(), progress.steps() as step:
        made = append(
            image,
            to,
            platform=Platform.parse(platform),
            connection=registries.connection(insecure, ca_file),
            progress=registries.transfers(step),
        )
    pushed.show(made, monotonic() - begun, as_json=as_json)
