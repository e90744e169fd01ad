"""What an instance has learned about its variants: kept for each context, saved, and shared with other instances."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from faas.clock import Clock, monotonic
from faas.engine.selection import exp3, exp4, weights
from faas.engine.selection.contexts import Contexts, added
from faas.engine.selection.feedback import Feedback
from faas.engine.selection.labels import label_of
from faas.engine.selection.recent import Answered, Recent
from faas.engine.selection.state_file import StateFile
from faas.engine.selection.weights import Logs
from faas.errors import BadInput, UnknownRequest
from faas.names import suggestion
from faas.spec import Selection

SAVE_S: Final = 1.0
"""How long what was learned may wait to be saved."""

REFRESH_S: Final = 10.0
"""How old what other instances have learned may be when a call is answered."""

_MAX_CONTEXT_LENGTH: Final = 256

_log = logging.getLogger(__name__)


class Learner:
    """The learned state of one function in one instance, for all versions of its weights. Belongs to the event loop.

    Without a `file` it lasts as long as the process.
    """

    def __init__(
        self, names: Sequence[str], selection: Selection, file: StateFile | None = None, *, clock: Clock = monotonic
    ) -> None:
        self.selection = selection
        self.names = tuple(names)
        self.num_used = 0
        self.num_unknown = 0
        self._least = selection.gamma / max(1, len(self.names))
        self._contexts = Contexts(names, self._least)
        self._recent = Recent()
        self._file = file
        self._clock = clock
        self._unsaved: dict[str, Logs] = {}
        self._synced_at = -math.inf
        self._syncing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def context_of(self, headers: Mapping[str, str]) -> str:
        """Return the context that a call is in, by its headers (names in lower case); "" where it names none."""
        name = self.selection.context
        return headers.get(name.lower(), "")[:_MAX_CONTEXT_LENGTH] if name is not None else ""

    def shares(self, context: str) -> dict[str, float]:
        """Return the share of each variant in a context; they add up to 1."""
        if self._clock() - self._synced_at >= REFRESH_S:
            self._begin_sync()
        return weights.shares(self._contexts.logs(context))

    def remember(self, request_id: str, answered: Answered) -> None:
        """Expect feedback on a call."""
        self._recent.add(request_id, answered)

    def learn(self, said: Feedback, context: str) -> None:
        """Use feedback. `context` is the one that it came with, for calls that are not known.

        Raises:
            BadInput: it does not say what the policy learns from.
            UnknownRequest: no call that is remembered has this id, and it does not say who answered.
        """
        if self.selection.policy == "exp3":
            context, change = self._of_one(said, context)
        else:
            context, change = self._of_all(said, context)
        self._recent.take(said.request_id)
        self.num_used += 1
        self._contexts.add({context: change})
        if self._file is not None:
            self._unsaved = added(self._unsaved, {context: change})
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(SAVE_S, self._begin_sync)

    async def sync(self) -> None:
        """Save what was learned, and take in what other instances have."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._syncing is not None:
            await asyncio.shield(self._syncing)
        if self._unsaved or self._synced_at == -math.inf:
            self._begin_sync()
        if self._syncing is not None:
            await asyncio.shield(self._syncing)

    def _begin_sync(self) -> None:
        self._timer = None
        self._synced_at = self._clock()
        if self._file is not None and self._syncing is None:
            self._syncing = asyncio.get_running_loop().create_task(self._sync(self._file))

    async def _sync(self, file: StateFile) -> None:
        taken, self._unsaved = self._unsaved, {}
        try:
            learned = await asyncio.to_thread(file.merge, taken, self.names, self._least)
        except OSError as error:
            _log.warning("what was learned about variants could not be saved: %s", error)
            self._unsaved = added(taken, self._unsaved)
        else:
            self._contexts.replace(learned)
            self._contexts.add(self._unsaved)
        finally:
            self._syncing = None

    def _of_one(self, said: Feedback, context: str) -> tuple[str, Logs]:
        if said.loss is None or said.losses is not None or said.label is not msgspec.UNSET:
            raise BadInput("exp3 learns from the loss of the one variant that answered: send loss, from 0 to 1")
        held = self._recent.get(said.request_id)
        if held is not None:
            return held.context, exp3.change(held.drawn, said.loss, held.probability, self.selection.rate)
        if said.variant is None:
            raise self._unknown(said.request_id)
        self._check_names([said.variant])
        probability = self.shares(context)[said.variant]
        return context, exp3.change(said.variant, said.loss, probability, self.selection.rate)

    def _of_all(self, said: Feedback, context: str) -> tuple[str, Logs]:
        if said.loss is not None or (said.losses is None) == (said.label is msgspec.UNSET):
            raise BadInput(
                "exp4 learns from the loss of each variant: send label, the right answer, or losses by variant"
            )
        held = self._recent.get(said.request_id)
        context = held.context if held is not None else context
        if said.losses is not None:
            self._check_names(list(said.losses))
            return context, exp4.change(said.losses, self.selection.rate)
        if held is None:
            raise self._unknown(said.request_id)
        return context, exp4.change(exp4.losses(held.labels, label_of(said.label)), self.selection.rate)

    def _check_names(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.names:
                raise BadInput(f"there is no variant {name!r}{suggestion(name, self.names)}: {', '.join(self.names)}")

    def _unknown(self, request_id: str) -> UnknownRequest:
        self.num_unknown += 1
        return UnknownRequest(
            f"no call {request_id!r} is remembered: it was not answered by this instance, is not among its last "
            f"{self._recent.most:,}, or has had its feedback"
        )
