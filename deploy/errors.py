"""Everything `deploy` raises on purpose.

DeployError
+-- InvalidSpec          an option of a description cannot be deployed as given (also a ValueError)
|   +-- InvalidName      nothing of a name can be kept, or there is no room for it
|   +-- InvalidQuantity  not an amount of CPU, memory or storage that Kubernetes can read
+-- MissingLibrary       an optional library of the `knative` extra is not installed
"""


class DeployError(Exception):
    """The root of the tree; catch this to catch all of `deploy`."""


class InvalidSpec(DeployError, ValueError):
    """An option of a description has a value that cannot be deployed.

    `option` is its dotted name (`scaling.min_instances`), `value` what was given, `remedy` what to give instead.
    """

    def __init__(self, option: str, value: object, problem: str, remedy: str) -> None:
        self.option, self.value, self.problem, self.remedy = option, value, problem, remedy
        super().__init__(option, value, problem, remedy)

    def __str__(self) -> str:
        shown = repr(self.value)
        if len(shown) > 120:
            shown = f"{shown[:117]}..."
        return f"{self.option}={shown} {self.problem}; {self.remedy}"


class InvalidName(InvalidSpec):
    """A name of which no DNS label can be made."""


class InvalidQuantity(InvalidSpec):
    """An amount that is not a Kubernetes quantity, or not a sensible one."""


class MissingLibrary(DeployError):
    """A library that only this operation needs is not installed."""
