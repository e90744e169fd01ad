"""What became of an image that was pushed, shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faas.cli import listing
from faas.cli.listing import duration, size

if TYPE_CHECKING:
    from deploy.image import Pushed


def show(pushed: Pushed, push_s: float, *, as_json: bool) -> None:
    """Write the image's reference, and what went to the registry."""
    row = {
        "image": pushed.image,
        "is_new": pushed.is_new,
        "size_bytes": sum(one.size_bytes for one in pushed.transfers),
        "sent_bytes": pushed.sent_bytes,
        "num_sent": pushed.num_sent,
        "push_s": push_s,
    }
    listing.show(
        [row],
        {
            "image": lambda one: one["image"],
            "new": lambda one: "yes" if one["is_new"] else "no",
            "size": lambda one: size(one["size_bytes"]),
            "sent": lambda one: size(one["sent_bytes"]),
            "push": lambda one: duration(one["push_s"]),
        },
        as_json=as_json,
        none="",
    )
