"""What a function that one box serves would meet on a cluster."""

from __future__ import annotations

from collections.abc import Callable

from faas.description import Description

_SHORTEST_START_S = 1.0  # as Knative counts


def tell(description: Description, progress: Callable[[str], None]) -> None:
    """Say what a cluster would refuse of a function, where it would."""
    warning = on_cluster(description)
    if warning is not None:
        progress(warning)


def on_cluster(description: Description) -> str | None:
    """Return what a cluster at its default settings would refuse of a function, and what to do; None for nothing."""
    from deploy.advice import about_timeouts  # for what is new alone: a platform that starts again is to be quick
    from deploy.spec import Timeouts

    timeouts = Timeouts(
        timeout_s=description.timeout_s,
        startup_timeout_s=max(_SHORTEST_START_S, description.startup_timeout_s),
        grace_period_s=description.grace_period_s,
    )
    refused = about_timeouts(timeouts)
    return None if refused is None else f"{description.name}, on a cluster: {refused}"
