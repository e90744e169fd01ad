"""Versions brought into a zygote, so that instances that are forked from it have them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from faas.engine.versions import plan, source
from faas.engine.versions.supply import Supply
from faas.errors import FaasError
from faas.function import Function
from faas.handler import Handler
from faas.spec.versions import Versions

logger = logging.getLogger(__name__)


def bring(supply: Supply, function: Function, place: str, rehearse: Callable[[Handler], None] | None) -> None:
    """Load the versions that are to be held now into `supply.ahead`, and `rehearse` each where that is given.

    What cannot be loaded is left to each instance. Nothing stays open.
    """
    try:
        look = source.find(place).look()  # a source of its own: what it opens must not be inherited
        numbers = plan.aspired(
            plan.make(function.spec.versions or Versions(), plan.read(look.file)), look.places
        ).numbers
    except FaasError as error:
        logger.warning("versions are left to each instance: %s", error)
        return
    for number in sorted(numbers):
        try:
            brought = supply.bring(look.places[number], background=False)
            if rehearse is not None:
                rehearse(brought.handler)
                brought.is_warm = True
        except Exception:
            logger.exception("version %d is left to each instance", number)
        else:
            supply.ahead[number] = brought
