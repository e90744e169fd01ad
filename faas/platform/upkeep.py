"""What is looked after while revisions run: their zygotes, their memory, their habits, and what their calls import."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from faas.platform.habits import Habits
from faas.platform.learning import Learning
from faas.platform.logs import LogFile
from faas.platform.loop import ScalingLoop
from faas.platform.memory import MemoryKeeper, read_default_budget
from faas.platform.registry import Registry
from faas.platform.state import State
from faas.platform.workplace import Workplace
from faas.platform.zygotes import Zygotes
from faas.preparation import Preparation


class Upkeep:
    """Makes control loops, and looks after what they run. `loops` gives all there are. Made on a running loop."""

    def __init__(
        self, workplace: Workplace, registry: Registry, state: State, loops: Callable[[], list[ScalingLoop]]
    ) -> None:
        settings = workplace.settings
        self._workplace = workplace
        self._registry = registry
        self.habits = Habits(settings.home / "platform" / "habits")
        self.memory = MemoryKeeper(settings.memory_bytes or read_default_budget(), workplace.pool, loops)
        self.zygotes = Zygotes(workplace.pool, lambda: [loop.preparation for loop in loops()], workplace.progress)
        self._learning = Learning(workplace, registry, state, self.zygotes)
        self._keeping: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Hold memory to its budget from now on."""
        self._keeping = asyncio.ensure_future(self.memory.run())

    def loop(self, preparation: Preparation, log: LogFile) -> ScalingLoop:
        """Make the control loop of a revision; it does not run yet."""

        def imported(late: list[str]) -> None:
            self._learning.learn(loop, late)

        def stepped() -> None:
            hosted = self._registry.get(preparation.name)
            if hosted is not None:
                self._workplace.observe(hosted)

        settings = self._workplace.settings
        keep_alive = settings.keep_alive or preparation.description.keep_alive
        loop = ScalingLoop(
            preparation,
            self._workplace.launcher,
            log,
            on_imported=imported,
            on_step=stepped,
            habit=self.habits.of(preparation.name) if keep_alive == "histogram" else None,
            admit=self.memory.admit,
            grace_s=settings.scale_to_zero_grace_s,
        )
        return loop

    def settle(self) -> None:
        """Learn nothing any more: the platform ends."""
        self._learning.is_over = True

    def cancel(self) -> None:
        """Let go of everything at once, and write down what is known of habits."""
        self.settle()
        self.habits.write()
        if self._keeping is not None:
            self._keeping.cancel()
        self.zygotes.close()
