"""What the calls of revisions turn out to import: their zygotes get it, and it is remembered."""

from __future__ import annotations

from faas.errors import FaasError
from faas.platform import revisions as rules
from faas.platform.loop import ScalingLoop
from faas.platform.registry import Registry
from faas.platform.state import State
from faas.platform.workplace import Workplace
from faas.platform.zygotes import Zygotes
from faas.preparation import Preparation


class Learning:
    """Learns until it `is_over`."""

    def __init__(self, workplace: Workplace, registry: Registry, state: State, zygotes: Zygotes) -> None:
        self._workplace = workplace
        self._registry = registry
        self._state = state
        self._zygotes = zygotes
        self.is_over = False

    def learn(self, loop: ScalingLoop, late: list[str]) -> None:
        """Give a revision a zygote that also has the modules `late`, and its instances from then on that zygote."""
        old = loop.preparation
        late = [module for module in late if module not in old.imports]
        if not late or self.is_over:
            return
        new = old.importing(tuple(late))
        self._zygotes.replace(old, new, lambda: self._learned(loop, old, new))

    def _learned(self, loop: ScalingLoop, old: Preparation, new: Preparation) -> None:
        if loop.preparation is not old:  # another instance has told of something else: the next one tells of this again
            return
        loop.adopt(new)
        try:
            self._remember(new)
        except FaasError as error:  # then it is learned again after a restart
            self._workplace.progress(str(error))

    def _remember(self, new: Preparation) -> None:
        stored = self._workplace.store.read(new.name)
        if stored is not None and stored.revision == new.revision:
            self._workplace.store.write(stored.importing(tuple(m for m in new.imports if m not in stored.imports)))
        hosted = self._registry.get(new.name)
        if hosted is not None:
            hosted.revisions = rules.with_preparation(hosted.revisions, new)
            self._state.write(hosted.revisions)
