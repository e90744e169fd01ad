"""Which of a function's variants answers a call."""

from __future__ import annotations

import re
from typing import Any, Final, Literal, get_args

import msgspec

from faas.errors import SettingError
from faas.spec.checks import choice, number, policy

SelectionPolicy = Literal["slack", "exp3", "exp4"]

_ETA: Final = {"exp3": 0.03, "exp4": 0.1}
_HEADER: Final = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")  # a token of RFC 9110, 5.6.2
_LEARNERS_ONLY: Final = ("eta", "gamma", "context")


@policy
class Selection:
    """How one of several variants is chosen.

    "slack" takes the most accurate one that answers in time at the present rate, never one below `accuracy_floor`.
    "exp3" learns from feedback which one is best. "exp4" asks all of them and takes the answer with the most weight;
    where fewer than `min_confidence` of them agree, `default` is the answer.

    `default` is also the answer where none comes in time. `eta` is the learning rate, `gamma` the share of calls that
    goes to exploring, `context` the header whose value has weights of its own.
    """

    policy: SelectionPolicy
    default: Any = msgspec.UNSET
    min_confidence: float = 0.0
    accuracy_floor: float = 0.0
    eta: float | None = None
    gamma: float = 0.03
    context: str | None = None

    def __post_init__(self) -> None:
        choice(self, "policy", get_args(SelectionPolicy))
        for field in ("min_confidence", "accuracy_floor", "gamma"):
            number(self, field, 0)
            if getattr(self, field) > 1:
                raise SettingError(f"Selection({field}={getattr(self, field)!r}): must be from 0 to 1")
        if self.eta is not None:
            number(self, "eta", 0, above=True)
        if self.context is not None and not (isinstance(self.context, str) and _HEADER.fullmatch(self.context)):
            raise SettingError(
                f"Selection(context={self.context!r}): no header can be called that; write a header's name, such as "
                "'X-User-Id'"
            )
        self._refuse_what_has_no_effect()
        if self.min_confidence > 0 and not self.has_default:
            raise SettingError(
                f"Selection(min_confidence={self.min_confidence:g}): say with default=... what is answered below it"
            )

    @property
    def learns(self) -> bool:
        """Whether feedback has an effect."""
        return self.policy != "slack"

    @property
    def has_default(self) -> bool:
        """Whether there is an answer for calls that get none."""
        return self.default is not msgspec.UNSET

    @property
    def rate(self) -> float:
        """The learning rate: as set, or what suits the policy."""
        return self.eta if self.eta is not None else _ETA[self.policy]

    def _refuse_what_has_no_effect(self) -> None:
        plain = type(self).__dataclass_fields__
        idle = [name for name in _LEARNERS_ONLY if not self.learns and getattr(self, name) != plain[name].default]
        if not self.learns and self.has_default:
            raise SettingError(
                'Selection(policy="slack", default=...): it refuses what no variant can answer in time; '
                "drop default, or take exp3 or exp4"
            )
        if self.learns and self.accuracy_floor > 0:
            raise SettingError(
                f"Selection(policy={self.policy!r}, accuracy_floor={self.accuracy_floor:g}): it learns how good its "
                'variants are and takes all of them; a floor is for policy="slack"'
            )
        if self.policy != "exp4" and self.min_confidence > 0:
            raise SettingError(
                f"Selection(policy={self.policy!r}, min_confidence={self.min_confidence:g}): one variant answers, "
                'so none can agree; take policy="exp4"'
            )
        if idle:
            raise SettingError(f'Selection(policy="slack", {idle[0]}=...): it learns nothing; take exp3 or exp4')
