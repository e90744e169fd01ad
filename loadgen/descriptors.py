"""As many connections as the system lets a process have: each request in flight takes a descriptor."""

import resource


def allow_most() -> None:
    """Raise this process's limit of open files to the most that it may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
