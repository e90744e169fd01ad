"""Everything `deploy.image` and `deploy.wheels` raise on purpose.

DeployError
+-- ImageError                  the root of what follows; `problem` says what happened, `remedy` what to do
    +-- BadReference            a text that names no image (also a ValueError)
    +-- BadImage                what a registry or a folder holds is no image to build on
    |   +-- WrongContent        bytes do not have the digest or size that was stated
    |   +-- WrongPlatform       an image for another machine or another Python
    +-- BadSource               a file cannot go into a layer, or be trusted
    +-- CredentialsError        the Docker configuration, or a helper that it names, gives no credentials
    +-- WheelsError             pip finds or installs no packages that fit
    +-- NoBuilder               no program to build an image with, or one that failed
    +-- RegistryError           a request to a registry failed; has `registry`, `repository` and `status`
        +-- NoAnswer            no answer, or one that broke off
        +-- Denied              the credentials do not permit it, or there are none
        +-- NotInRegistry       no such repository, tag or digest
        +-- NotAccepted         the registry rejects the request
        +-- Faulty              the registry fails at present, or has lost what it was sent
"""

from deploy.errors import DeployError


class ImageError(DeployError):
    """The root of the tree."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(problem, remedy)

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


class BadReference(ImageError, ValueError):
    """A text that names no image."""


class BadImage(ImageError):
    """What is at a reference cannot be built on."""


class WrongContent(BadImage):
    """Bytes do not have the digest or size that was stated."""


class WrongPlatform(BadImage):
    """An image for another machine, or with another Python."""


class BadSource(ImageError):
    """A file cannot go into a layer, or be trusted: it is unreadable, has changed, or has no place in an image."""


class CredentialsError(ImageError):
    """The Docker configuration, or a helper that it names, gives no credentials."""


class WheelsError(ImageError):
    """pip finds or installs no packages that fit."""


class NoBuilder(ImageError):
    """There is no program that builds images, or it failed."""


class RegistryError(ImageError):
    """A request to a registry failed.

    `status` is that of its answer, None where there was none; `retry_after_s` is how long it asks to wait.
    """

    def __init__(
        self, where: str, what: str, remedy: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        self.registry, _, self.repository = where.partition("/")
        self.status, self.retry_after_s = status, retry_after_s
        super().__init__(f"{where}: {what}", remedy)


class NoAnswer(RegistryError):
    """The registry did not answer, or its answer broke off."""


class Denied(RegistryError):
    """The credentials do not permit it, or there are none."""


class NotInRegistry(RegistryError):
    """There is no such repository, tag or digest."""


class NotAccepted(RegistryError):
    """The registry rejects the request."""


class Faulty(RegistryError):
    """The registry fails at present, or has lost what it was sent."""
