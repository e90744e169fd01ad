"""Everything `deploy.image` and `deploy.wheels` raise on purpose.

DeployError
+-- ImageError                  the root of what follows; `problem` says what happened, `remedy` what to do
    +-- BadReference            a text that names no image (also a ValueError)
    +-- BadImage                what a registry or a folder holds is no image to build on
    |   +-- WrongContent        bytes that are not those of their digest or size
    |   +-- WrongPlatform       an image for another machine or another Python
    +-- BadSource               what was to go into a layer cannot
    +-- CredentialsError        the Docker configuration, or a helper that it names, gives no credentials
    +-- WheelsError             pip finds or installs no packages that fit
    +-- NoBuilder               no program to build an image with, or one that failed
    +-- RegistryError           a registry's doing; has `registry`, `repository` and `status`
        +-- NoAnswer            none, or none to its end
        +-- Denied              not with these credentials, or not without
        +-- NotInRegistry       no such repository, tag or digest
        +-- NotAccepted         it will not do that
        +-- Faulty              it cannot at present, or it lost what it was given
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
    """Bytes that are not those of their digest or size."""


class WrongPlatform(BadImage):
    """An image for another machine, or with another Python."""


class BadSource(ImageError):
    """What was to go into a layer cannot."""


class CredentialsError(ImageError):
    """The Docker configuration, or a helper that it names, gives no credentials."""


class WheelsError(ImageError):
    """pip finds or installs no packages that fit."""


class NoBuilder(ImageError):
    """There is no program that builds images, or it failed."""


class RegistryError(ImageError):
    """What a registry did.

    `status` is that of its answer, None where there was none; `retry_after_s` is how long it asks to wait.
    """

    def __init__(
        self, where: str, what: str, remedy: str, *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        self.registry, _, self.repository = where.partition("/")
        self.status, self.retry_after_s = status, retry_after_s
        super().__init__(f"{where}: {what}", remedy)


class NoAnswer(RegistryError):
    """No answer, or none to its end."""


class Denied(RegistryError):
    """Not with these credentials, or not without."""


class NotInRegistry(RegistryError):
    """There is no such repository, tag or digest."""


class NotAccepted(RegistryError):
    """The registry will not do that."""


class Faulty(RegistryError):
    """The registry cannot at present, or has lost what it was given."""
