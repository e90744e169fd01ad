"""What can go wrong with bundles, as one tree.

BundleError                 root; also a FaasError
├── Unbundleable            something that the function needs cannot travel; names it, and says what to do instead
├── BadBundle               what is at rest is no bundle, is not whole, is not what it says, or is hostile
└── IncompatibleBundle      it was made for another Python, or with other libraries, than are here
"""

from __future__ import annotations

from faas.errors import FaasError


class BundleError(FaasError):
    """Root of what this package raises on purpose."""


class Unbundleable(BundleError):
    """Something that a function needs cannot travel.

    `variable` is what holds it, as its code spells it, where it is one variable; `remedy` says what to do instead.
    """

    def __init__(self, problem: str, remedy: str, variable: str | None = None) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy
        self.variable = variable


class BadBundle(BundleError):
    """A folder or an archive is no bundle, is not whole, is not what it says, or is hostile."""


class IncompatibleBundle(BundleError):
    """A bundle was made for another Python, or with other libraries, than are here. Nothing of it was unpickled."""
