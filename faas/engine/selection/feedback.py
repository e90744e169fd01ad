"""What callers say about an answer that they got."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Loss = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class Feedback(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Feedback on the call whose answer had `request_id` in its `X-Request-Id`.

    `loss` is how bad the answer was, from 0 to 1. `label` is what the answer should have been, `losses` how bad each
    variant's was. `variant` says who answered, for an instance that does not know the call.
    """

    request_id: str
    loss: Loss | None = None
    losses: Annotated[dict[str, Loss], msgspec.Meta(min_length=1)] | None = None
    label: Any = msgspec.UNSET
    variant: str | None = None
