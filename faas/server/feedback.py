"""What callers say about answers, where a function learns from it: POST /feedback."""

from __future__ import annotations

from typing import Final

from starlette.types import Receive, Scope, Send

from faas import codec
from faas.engine.selection.feedback import Feedback
from faas.engine.selection.learner import Learner
from faas.server import headers as stated
from faas.server.answer import Answer
from faas.server.body import Body
from faas.server.problem import Problem

_LIMIT_BYTES: Final = 1024 * 1024


class TakeFeedback:
    """Answers POST /feedback: 204 once it is learned from; 404 where the call is not remembered."""

    def __init__(self, learner: Learner, ids: stated.RequestIds) -> None:
        self._learner = learner
        self._ids = ids
        self._decoder = codec.decoder(Feedback)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as an ASGI application."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        request_id = self._ids.of(headers.get(stated.REQUEST_ID))
        body = Body(receive, headers, _LIMIT_BYTES)
        try:
            said = codec.decode(await body.read(), self._decoder)
            self._learner.learn(said, self._learner.context_of(stated.Headers(headers)))
        except Exception as error:
            await Answer.telling(Problem.of(error), request_id).send(send, body)
        else:
            await Answer(204, ((stated.REQUEST_ID, request_id),)).send(send, body)
