"""What an engine runs for an endpoint: the handler, and the form of the items that its batching asks for."""

from __future__ import annotations

from faas.engine.work import Form, Stacked, Work
from faas.function import Endpoint
from faas.handler import Handler
from faas.schema import Signature
from faas.spec import Batching


def work_of(handler: Handler, endpoint: Endpoint) -> Work:
    """Return what an engine runs for an endpoint of a handler that has its state."""
    signature, spec = endpoint.signature, handler.function.spec
    return Work(
        handler.method(endpoint),
        signature.kind,
        batched=signature.batched,
        context=signature.context,
        grad=spec.grad,
        form=form_of(signature, spec.batching),
    )


def form_of(signature: Signature, batching: Batching | None) -> Form:
    """Return the form of the items of a batch."""
    padding = batching.padding if batching is not None else None
    if batching is not None and batching.rows:
        from faas.engine.rows import Rows  # here and below: only those who ask for it pay for it

        return Rows(signature.libraries())
    if batching is not None and padding is not None:
        from faas.engine.ragged import Ragged

        return Ragged(padding, signature.padded(), batching.buckets)
    return Stacked(signature.collate())
