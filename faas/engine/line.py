"""What a batch takes on average: seconds(size) = alpha * size + beta, learned while serving."""

from __future__ import annotations

from typing import Final

DECAY: Final = 0.95
"""The weight of an observation after one more: about the last twenty count."""

SURPRISE: Final = 3.0
"""An observation off by this factor, up or down, means that the past no longer holds: a slow first call, throttling."""

FORGET: Final = 0.2
"""What is left of the past's weight after a surprise."""

PRIOR_WEIGHT: Final = 1.0
"""Weight, in squared items, of the prior that half of a mean batch's time is fixed cost."""


class Line:
    """Weighted least squares over (size, seconds) with exponential decay, held at alpha >= 0 and beta >= 0.

    While the sizes seen hardly differ the line is not determined; a weak prior (ridge on the slope) then says that half
    of the time is fixed. Before any observation every answer is 0.0.
    """

    def __init__(self) -> None:
        self.alpha_s = 0.0
        self.beta_s = 0.0
        self.num_observed = 0
        self._weight = self._x = self._y = self._xx = self._xy = 0.0

    def seconds(self, size: int) -> float:
        """Return the expected seconds of a batch of `size` items."""
        return self.alpha_s * size + self.beta_s

    def observe(self, size: int, seconds: float) -> None:
        """Learn that a batch of `size` >= 1 items took `seconds` >= 0."""
        expected = self.seconds(size)
        surprised = seconds > SURPRISE * expected or seconds * SURPRISE < expected
        keep = DECAY * (FORGET if surprised else 1.0)
        self._weight = keep * self._weight + 1.0
        self._x = keep * self._x + size
        self._y = keep * self._y + seconds
        self._xx = keep * self._xx + size * size
        self._xy = keep * self._xy + size * seconds
        self.num_observed += 1
        self._fit()

    def _fit(self) -> None:
        mean_x, mean_y = self._x / self._weight, self._y / self._weight
        prior = mean_y / (2.0 * mean_x)
        spread = max(0.0, self._xx - self._x * mean_x)
        joint = self._xy - self._x * mean_y
        alpha = (joint + PRIOR_WEIGHT * prior) / (spread + PRIOR_WEIGHT)
        beta = mean_y - alpha * mean_x
        if alpha < 0.0:
            alpha, beta = 0.0, mean_y
        elif beta < 0.0:  # the best line through the origin
            alpha, beta = self._xy / self._xx, 0.0
        self.alpha_s, self.beta_s = alpha, beta
