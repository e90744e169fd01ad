"""What goes wrong with a cluster, an image or a store, with what to do next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Say of errors what they are, in a line, and what to do next, in another."""
    try:
        yield
    except click.ClickException:
        raise
    except Exception as error:
        from faas.cli.cluster import explaining  # what errors there are takes a while to import

        failure = explaining.explained(error)
        if failure is None:
            raise
        raise failure from error
