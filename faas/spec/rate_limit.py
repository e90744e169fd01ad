"""What a batch needs beside its place: units of resources that all batches of a process share."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from faas import names
from faas.errors import SettingError
from faas.spec.checks import is_whole, policy, whole

if TYPE_CHECKING:
    from faas.spec.batching import Batching


@policy
class RateLimit:
    """A batch begins only when it has `resources`: so many units of each, by name, until it ends.

    A pool has as many units as `pools` says, else as many as the most that anything asks of it. Who waits is ordered by
    its batches so far times its `priority`: 2 gets half the turns of 1.
    """

    resources: Mapping[str, int] = dataclasses.field(hash=False)
    priority: int = 1
    pools: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        whole(self, "priority", 1)
        for field in ("resources", "pools"):
            given = getattr(self, field)
            if not isinstance(given, Mapping):
                raise SettingError(f"RateLimit({field}={given!r}): must map names to numbers of units")
            for name, count in given.items():
                if not isinstance(name, str) or not name.strip():
                    raise SettingError(f"RateLimit({field}={{{name!r}: ...}}): a resource needs a name")
                if not is_whole(count, 1):
                    raise SettingError(
                        f"RateLimit({field}={{{name!r}: {count!r}}}): must be a whole number of units, 1 at least"
                    )
        if not self.resources:
            raise SettingError('RateLimit(resources={}): it limits nothing; name what a batch needs, as {"copies": 1}')


def pool_sizes(limits: Iterable[RateLimit]) -> dict[str, int]:
    """Return how many units there are of each resource, for all who ask by `limits`.

    Raises:
        SettingError: a pool has two sizes, or fewer units than somebody needs, or is of use to nobody.
    """
    given, asked = dict[str, int](), dict[str, int]()
    for limit in limits:
        for name, size in limit.pools.items():
            if given.setdefault(name, size) != size:
                raise SettingError(
                    f"RateLimit(pools={{{name!r}: {size}}}): another one says {given[name]}; say it once"
                )
        for name, count in limit.resources.items():
            asked[name] = max(count, asked.get(name, 0))
    for name, size in given.items():
        if name not in asked:
            near = names.suggestion(name, asked)
            raise SettingError(f"RateLimit(pools={{{name!r}: {size}}}): nothing asks for it{near}; leave it out")
        if asked[name] > size:
            raise SettingError(
                f"RateLimit(resources={{{name!r}: {asked[name]}}}, pools={{{name!r}: {size}}}): a batch would wait for "
                "ever; ask for less, or raise the pool"
            )
    return asked | given


def check_methods(batching: Batching | None, title: str, methods: Collection[str]) -> None:
    """Refuse limits of methods that do not answer in what is called `title`; `methods` do.

    Raises:
        SettingError: names one.
    """
    limits = None if batching is None else batching.rate_limit
    for name in limits if isinstance(limits, Mapping) else ():
        if name not in methods:
            raise SettingError(
                f"{title}: Batching(rate_limit={{{name!r}: ...}}) is for no method that "
                f"answers{names.suggestion(str(name), methods)}; these do: {', '.join(methods)}"
            )
