"""`faas image inspect`: what an image in a registry is."""

from __future__ import annotations

from pathlib import Path

import click

from faas.cli import listing, registries
from faas.cli.listing import size


@click.command("inspect")
@click.argument("image")
@registries.platform_option
@registries.options
@listing.option
def command(image: str, platform: str, insecure: tuple[str, ...], ca_file: Path | None, as_json: bool) -> None:
    """Show digest, layers and configuration of IMAGE. Nothing but documents is read."""
    from deploy.image import Platform, inspect  # httpx, which most commands do without

    with registries.failures():
        reference, found = inspect(
            image, platform=Platform.parse(platform), connection=registries.connection(insecure, ca_file)
        )
    if as_json:
        listing.write_json(
            {
                "image": reference,
                "media_type": found.manifest.media_type,
                "layers": [layer.document() for layer in found.manifest.layers],
                "config": found.config,
            }
        )
        return
    settings, layers = found.settings, found.manifest.layers
    lines = {
        "image": reference,
        "platform": f"{found.config.get('os')}/{found.config.get('architecture')}",
        "layers": f"{len(layers)}, {size(sum(layer.size_bytes for layer in layers))}",
        "entrypoint": " ".join(settings.get("Entrypoint") or ()),
        "command": " ".join(settings.get("Cmd") or ()),
        "user": settings.get("User"),
        "folder": settings.get("WorkingDir"),
        **{f"env {name}": value for name, value in found.environment.items()},
        **{f"label {name}": value for name, value in found.labels.items()},
    }
    for name, value in lines.items():
        if value:
            click.echo(f"{name + ':':<12} {value}")
