"""Everything `deploy` raises on purpose.

DeployError
+-- InvalidSpec          an option of a description cannot be deployed as given (also a ValueError)
|   +-- InvalidName      nothing of a name can be kept, or there is no room for it
|   +-- InvalidQuantity  not an amount of CPU, memory or storage that Kubernetes can read
+-- MissingLibrary       an optional library of the `knative` extra is not installed
+-- ImageError           an image, a layer or a registry: with its own tree in `deploy.image.errors`
+-- ClusterError         a cluster did not do what was asked
    +-- NoCluster        nothing says which cluster, or its credentials cannot be read
    +-- Unreachable      no answer, or none in time; names the proxy where there is one
    +-- ApiError         an answer that is an error
    |   +-- NotAllowed   401, 403: who is asking may not
    |   +-- Missing      404: no such object
    |   +-- Conflict     409: somebody else changed it, or holds a field of it
    |   +-- Expired      410: a version or a page that the server keeps no longer
    |   +-- Refused      400, 422: a rule of the API server, of a webhook or of a schema
    |   +-- Unavailable  429, 502, 503, 504, and a webhook that gives no answer: it may later
    +-- NotOurs          an object of that name was made by something else
    +-- NotReady         a service failed to become ready, or not in time
"""

from collections.abc import Mapping, Sequence


class DeployError(Exception):
    """The root of the tree; catch this to catch all of `deploy`."""


class InvalidSpec(DeployError, ValueError):
    """An option of a description has a value that cannot be deployed.

    `option` is its dotted name (`scaling.min_instances`), `value` what was given, `remedy` what to give instead. Where
    no option is at fault `option` is empty, and `value` what the problem is of.
    """

    def __init__(self, option: str, value: object, problem: str, remedy: str) -> None:
        self.option, self.value, self.problem, self.remedy = option, value, problem, remedy
        super().__init__(option, value, problem, remedy)

    def __str__(self) -> str:
        shown = repr(self.value) if self.option else str(self.value)
        if len(shown) > 120:
            shown = f"{shown[:117]}..."
        of = f"{self.option}=" if self.option else ""
        return f"{of}{shown} {self.problem}; {self.remedy}"


class InvalidName(InvalidSpec):
    """A name of which no DNS label can be made."""


class InvalidQuantity(InvalidSpec):
    """An amount that is not a Kubernetes quantity, or not a sensible one."""


class MissingLibrary(DeployError):
    """A library that only this operation needs is not installed."""


class ClusterError(DeployError):
    """A cluster did not do what was asked."""


class NoCluster(ClusterError):
    """Nothing says which cluster to use, or what says so cannot be read."""


class Unreachable(ClusterError):
    """The API server gave no answer, or none in time."""


class ApiError(ClusterError):
    """The API server answered with an error.

    `status` is the HTTP status, `reason` Kubernetes' word for it (`AlreadyExists`), `causes` the fields that it names,
    each a mapping with some of `reason`, `message` and `field`.
    """

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", causes: Sequence[Mapping[str, str]] = ()
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.causes = status, reason, tuple(causes)


class NotAllowed(ApiError):
    """Who is asking is not known to the cluster, or may not do this."""


class Missing(ApiError):
    """There is no such object."""


class Conflict(ApiError):
    """Somebody else changed the object meanwhile, or holds a field of it."""


class Expired(ApiError):
    """The version or page that was asked for is kept no longer."""


class Refused(ApiError):
    """The object breaks a rule of the API server, of a webhook or of its schema."""


class Unavailable(ApiError):
    """The API server, or a webhook that it has to ask, cannot answer at present."""


class NotOurs(ClusterError):
    """An object of that name stands in the cluster and was made by something else."""


class NotReady(ClusterError):
    """A service failed to become ready, or did not within the time it was given.

    `reason` is one word (`ImagePullBackOff`, `Timeout`), `pod` the pod that shows it best, `log` its last lines.
    """

    def __init__(self, message: str, *, reason: str, pod: str | None = None, log: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reason, self.pod, self.log = reason, pod, tuple(log)

    def __str__(self) -> str:
        text = super().__str__()
        return "\n".join([text, *(f"    {line}" for line in self.log)]) if self.log else text
