"""What an answer of server-sent events says: when its content came, how many tokens it was, and whether it failed.

The events are those of any server, their data being the content; or those of an OpenAI-like one, whose JSON has
`choices`: of these, what starts a message, what only counts (`usage`) and `[DONE]` are no content. No sockets here.
"""

import json
import re
from typing import Any

from loadgen.sample import Outcome, Timing

MEDIA_TYPE = "text/event-stream"

_LINE_END = re.compile(rb"\r\n|\r|\n")
_TEXTS = ("content", "reasoning_content", "reasoning", "text", "refusal")
_MAX_ERROR_CHARACTERS = 200


class EventReader:
    """Reads one answer as its bytes come, in pieces of any size (WHATWG HTML, 9.2.6)."""

    def __init__(self) -> None:
        self.outcome = Outcome.OK
        """Not that of the status where the server has told of an error in an event."""
        self.error: str | None = None
        self._rest = b""  # a line that is not complete
        self._skips_line_feed = False  # the last piece ended with the first half of a CRLF
        self._type = b""
        self._data: list[bytes] = []
        self._first_at = self._last_at = 0.0
        self._num_chunks = 0
        self._num_characters = self._num_first_characters = 0
        self._num_tokens = self._num_first_tokens = 0

    def feed(self, piece: bytes, at: float) -> None:
        """Read on; `piece` came at the instant `at`."""
        if self._skips_line_feed:
            self._skips_line_feed = False
            piece = piece.removeprefix(b"\n")
        *lines, self._rest = _LINE_END.split(self._rest + piece)
        self._skips_line_feed = piece.endswith(b"\r")
        for line in lines:
            self._take_line(line, at)

    def timing(self) -> Timing:
        """Return when the content came, as far as it has.

        Tokens are those that the server counts in `usage`. A server that counts once, at the end, does not say how many
        came with the first chunk: they are taken to be as many as its share of the characters.
        """
        num_first = self._num_first_tokens
        if not num_first and self._num_characters:
            num_first = round(self._num_tokens * self._num_first_characters / self._num_characters)
        num_later = self._num_tokens - max(num_first, 1)
        return Timing(
            first_at=self._first_at if self._num_chunks else None,
            num_chunks=self._num_chunks,
            num_tokens=self._num_tokens,
            per_token_s=(self._last_at - self._first_at) / num_later if self._num_chunks and num_later > 0 else None,
        )

    def _take_line(self, line: bytes, at: float) -> None:
        if not line:
            if self._data:
                self._take_event(self._type, b"\n".join(self._data), at)
            self._type, self._data = b"", []
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value

    def _take_event(self, kind: bytes, data: bytes, at: float) -> None:
        if kind == b"error":
            self._fail(data, _decoded(data))
            return
        if kind == b"ping" or data == b"[DONE]":
            return
        said = _decoded(data) if data.startswith(b"{") else None
        if not isinstance(said, dict) or not {"choices", "usage", "error"} & said.keys():
            self._take_content(len(data), at)
            return
        if said.get("error"):
            self._fail(data, said["error"])
            return
        self._count(said.get("usage"))
        num_characters = sum(map(_num_characters, said.get("choices") or ()))
        if num_characters:
            self._take_content(num_characters, at)

    def _take_content(self, num_characters: int, at: float) -> None:
        self._last_at = at
        self._num_chunks += 1
        self._num_characters += num_characters
        if self._num_chunks == 1:
            self._first_at, self._num_first_characters = at, num_characters
            self._num_first_tokens = self._num_tokens  # of a server that counts as it goes

    def _count(self, usage: Any) -> None:
        num = usage.get("completion_tokens") if isinstance(usage, dict) else None
        if isinstance(num, int):
            self._num_tokens = max(self._num_tokens, num)

    def _fail(self, data: bytes, said: Any) -> None:
        status = said.get("status", said.get("code")) if isinstance(said, dict) else None
        if not (isinstance(status, int) and 400 <= status < 600):
            status = 500
        self.outcome = Outcome.of_status(status)
        self.error = f"in the stream: {data[:_MAX_ERROR_CHARACTERS].decode(errors='replace')}"


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _num_characters(choice: Any) -> int:
    """Return how long the content is that a choice of an OpenAI-like event brings; a tool's call is content, too."""
    if not isinstance(choice, dict):
        return 0
    delta = choice.get("delta")
    parts = delta if isinstance(delta, dict) else choice
    texts = sum(len(parts[name]) for name in _TEXTS if isinstance(parts.get(name), str))
    return texts + (len(json.dumps(parts["tool_calls"])) if parts.get("tool_calls") else 0)
