"""What is known of one request once it is over."""

from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """How a request ended, from the caller's side."""

    OK = "ok"  # 2xx, read to its end, and no event of it says that it failed
    CLIENT_ERROR = "client_error"  # 4xx, and 3xx: the request as it is does not get an answer here
    OVERLOADED = "overloaded"  # 429 or 503: turned away
    SERVER_ERROR = "server_error"  # every other 5xx
    TIMEOUT = "timeout"  # no whole answer within the run's time-out
    CONNECT_ERROR = "connect_error"  # no connection: refused, unresolved, TLS not agreed
    UNSENT = "unsent"  # no descriptor or port was left on this side
    BROKEN = "broken"  # the connection ended before the answer did, or what came was not HTTP
    UNFINISHED = "unfinished"  # due or in flight when the run was stopped

    @classmethod
    def of_status(cls, status: int) -> "Outcome":
        """Return the class of a whole answer."""
        if 200 <= status < 300:
            return cls.OK
        if status in (429, 503):
            return cls.OVERLOADED
        return cls.SERVER_ERROR if status >= 500 else cls.CLIENT_ERROR


class Timing(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """When the content of a stream came: its first chunk at `first_at`, None if it had none.

    `num_tokens` is what the server counted, 0 where it does not count; `per_token_s` the mean seconds from one token to
    the next after the first chunk, (last chunk - first chunk) / (tokens - those of the first chunk).
    """

    first_at: float | None
    num_chunks: int
    num_tokens: int
    per_token_s: float | None


class Sample(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One request. Instants are seconds of the monotonic clock.

    `planned_at` is when it was due, `sent_at` when it was handed to a connection, `done_at` when its answer had been
    read or had failed. `cold`, `batch_size` and `phases_ms` are what the server says; None or empty where it does not.
    `timing` is that of an answer of server-sent events, None of any other.
    """

    planned_at: float
    sent_at: float
    done_at: float
    outcome: Outcome
    status: int | None = None
    cold: bool | None = None
    batch_size: int | None = None
    phases_ms: tuple[tuple[str, float], ...] = ()
    num_bytes: int = 0
    timing: Timing | None = None
    error: str | None = None
