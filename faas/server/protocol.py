"""Uvicorn's HTTP protocol, which makes its answers by ours, and goes on in HTTP/1.1 where another is offered.

Clients that know HTTP/2 offer it with every first request (`Upgrade: h2c`: each Java client that was not told
otherwise), and a server that does not take the offer answers as if it were not there (RFC 9110, 7.8). The parser
however stops at the end of such a head, and uvicorn leaves it there: the body would be lost, and so would the
connection.
"""

from __future__ import annotations

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from faas.server.cycle import Cycle
from faas.server.uvicorn_parts import HttpToolsProtocol

_FRAMING = frozenset((b"content-length", b"transfer-encoding"))


class Protocol(HttpToolsProtocol):
    """One connection. No offer to speak another protocol is taken."""

    _reads_on = False
    """Whether the parser is being told of a head that has been read already."""

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        self._unset_keepalive_if_required()
        while data:
            try:
                self.parser.feed_data(data)
                return
            except HttpParserUpgrade as stopped:
                data = data[stopped.args[0] :]
                self._read_on()
            except HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        if self._reads_on:
            return
        super().on_headers_complete()
        self.cycle.__class__ = Cycle  # uvicorn makes its own, and the work on it begins in the next turn of the loop

    def _read_on(self) -> None:
        """Have what follows a head that has an offer in it read as what follows any head, by a new parser."""
        framing = [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] in _FRAMING]
        cycle = self.cycle
        cycle.more_body = True  # the parser said that nothing follows; nobody has looked yet
        cycle.message_event.clear()
        self.parser = HttpRequestParser(self)
        self._reads_on = True
        try:
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        finally:
            self._reads_on = False
