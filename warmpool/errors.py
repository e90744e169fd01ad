"""What can go wrong in the warm pool.

WarmpoolError
├── ProtocolError       a message is too big, has too many descriptors, or cannot be understood
├── EnvironmentInvalid  an environment cannot be used as it stands
├── RequestInvalid      a request cannot be used as it stands
├── ZygoteError
│   ├── ZygoteStartError    a zygote did not become ready
│   ├── ForkRefused         a fork would not be safe, or failed
│   └── ZygoteDied          a zygote ended, or stopped answering, with a request in hand
├── WorkerStartError    a worker could not be started by exec either
└── PoolClosed          the pool was asked for a worker after it was closed
"""


class WarmpoolError(Exception):
    """Base of everything this package raises on purpose."""


class ProtocolError(WarmpoolError):
    """A message between client, zygote and worker broke the rules of `protocol`."""


class EnvironmentInvalid(WarmpoolError):
    """An environment holds a value that cannot be used."""


class RequestInvalid(WarmpoolError):
    """A request holds a value that cannot be used."""


class ZygoteError(WarmpoolError):
    """Something about one zygote."""


class ZygoteStartError(ZygoteError):
    """A zygote process was started and did not become ready."""


class ZygoteDied(ZygoteError):
    """A zygote ended, or stopped answering, before it answered."""


class ForkRefused(ZygoteError):
    """A zygote will not fork, and says why."""


class WorkerStartError(WarmpoolError):
    """The operating system refused to start a worker process."""


class PoolClosed(WarmpoolError):
    """The pool has been closed."""
