"""Connections: limits of number, headers and time, for uvicorn's protocols.

uvicorn limits neither the size of headers (with httptools) nor the time in which they arrive, and counts a connection
only with its first request. A connection of this module *waits* as long as the next bytes are the client's: headers,
a body, or an answer to be read. Where there are too many connections, the one that has waited longest is closed, so
that clients who send nothing cannot keep others out.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from tribit.errors import printable
from tribit.serve.schemas import encode
from tribit.serve.settings import ServiceSettings

#: Maximum number of requests that a client sends on a connection before the answer to the first.
MAX_PIPELINED = 64
#: Digits of an IPv6 address that a network gives to one customer: further ones cost nothing.
IPV6_PREFIX = 64


class Connections:
    """Open connections of a worker, by address, and those that wait for their client, oldest first.

    Parameters
    ----------
    settings : ServiceSettings
        Limits.
    count : callable
        Called with the reason when a connection is closed or refused because of a limit.
    """

    def __init__(self, settings: ServiceSettings, count: Callable[[str], None]) -> None:
        self.settings, self.count = settings, count
        self._open: dict[LimitedConnection, str] = {}
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[LimitedConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: LimitedConnection) -> bool:
        """Add a connection if its address, and the worker, have room for it or a connection that waits."""
        address = network_of(connection.client)
        is_crowded = self._by_address[address] >= self.settings.max_per_address
        if is_crowded or len(self._open) >= self.settings.max_connections:
            of = (each for each in self._waiting if not is_crowded or self._open[each] == address)
            oldest = next(of, None)
            if oldest is None:
                return False
            self.count("crowded out")
            self.remove(oldest)
            oldest.transport.abort()
        self._open[connection] = address
        self._by_address[address] += 1
        self._waiting[connection] = None
        return True

    def remove(self, connection: LimitedConnection) -> None:
        """Remove a connection; nothing happens if it was removed before."""
        address = self._open.pop(connection, None)
        self._waiting.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def set_waiting(self, connection: LimitedConnection, waits: bool) -> None:
        """Keep whether a connection waits for its client."""
        if not waits:
            self._waiting.pop(connection, None)
        elif connection in self._open:
            self._waiting.setdefault(connection)


def network_of(client: tuple[str, int] | None) -> str:
    """Return the address of a client, of an IPv6 address the network.

    Examples
    --------
    >>> network_of(("127.0.0.1", 5)), network_of(("2001:db8::7", 5))
    ('127.0.0.1', '2001:db8::')
    """
    host = client[0].partition("%")[0] if client else ""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), IPV6_PREFIX), strict=False).network_address)


def size_of_headers(scope: Mapping[str, Any]) -> int:
    """Return the bytes of the path, the query and the headers of a request."""
    lines = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    return lines + len(scope["raw_path"]) + len(scope["query_string"])


if TYPE_CHECKING:
    Protocol = H11Protocol  # that of httptools has the same methods
else:
    Protocol = object


class LimitedConnection(Protocol):
    """Limits of a connection, for a class beside one of uvicorn's protocols.

    The lifespan of the application yields its :class:`Connections` under the name ``connections``.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit or refuse the connection."""
        super().connection_made(transport)
        self.limits: Connections = self.app_state["connections"]
        self._headers_due: asyncio.TimerHandle | None = None
        self._reading_due: asyncio.TimerHandle | None = None
        if self.limits.admit(self):
            self._expect_headers()
        else:
            self.refuse(503, "The service has too many connections; try again.", "too many")

    def data_received(self, data: bytes) -> None:
        """Parse the next bytes, and open or continue a request."""
        if self.transport.is_closing():
            return
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop(self._headers_due)
            self._headers_due = None
            if size_of_headers(self.scope) > self.limits.settings.max_header:
                self.refuse_large_headers()
        elif self._is_idle and self._headers_due is None:
            self._expect_headers()
        self._set_waiting()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._set_waiting()

    def pause_writing(self) -> None:
        """Limit the time in which the client reads its answer."""
        super().pause_writing()
        self._stop(self._reading_due)
        self._reading_due = self.loop.call_later(
            self.limits.settings.answer_seconds, self._abort, "reads too slowly"
        )
        self._set_waiting()

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        self._stop(self._reading_due)
        self._set_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.limits.remove(self)
        self._stop(self._headers_due)
        self._stop(self._reading_due)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no HTTP."""
        self.refuse(400, f"{msg.rstrip('.')}; send HTTP/1.1.", "no HTTP")

    def refuse(self, status: int, sentence: str, reason: str) -> None:
        """Send an error outside of a request, and close the connection."""
        if self.transport.is_closing():
            return
        self.limits.count(reason)
        if self._is_idle or not self.cycle.response_started:
            body = encode({"error": printable(sentence)})
            head = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode("ascii") + body)
        if not self._is_idle:
            self.cycle.disconnected = True  # no answer of the application follows
        self.transport.close()

    def refuse_large_headers(self) -> None:
        """Refuse headers above the limit."""
        limit = self.limits.settings.max_header
        self.refuse(431, f"The headers have more than {limit} bytes; send less.", "large headers")

    def _expect_headers(self) -> None:
        seconds = self.limits.settings.header_seconds
        self._headers_due = self.loop.call_later(seconds, self._refuse_late_headers)

    def _refuse_late_headers(self) -> None:
        seconds = self.limits.settings.header_seconds
        sentence = f"The headers did not arrive within {seconds:g} s; send them at once."
        self.refuse(408, sentence, "headers too late")

    def _abort(self, reason: str) -> None:
        self.limits.count(reason)
        self.transport.abort()

    @property
    def _is_idle(self) -> bool:
        """Whether no request is open."""
        return self.cycle is None or self.cycle.response_complete

    def _set_waiting(self) -> None:
        waits = self._is_idle or self.cycle.more_body or self.flow.write_paused
        self.limits.set_waiting(self, waits)

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


class H11Connection(LimitedConnection, H11Protocol):
    """A connection parsed by h11, which limits headers by ``h11_max_incomplete_event_size``."""


protocol: type[asyncio.Protocol] = H11Connection
try:
    import httptools
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:
    pass
else:

    class HttpToolsConnection(LimitedConnection, HttpToolsProtocol):  # type: ignore[misc]
        """A connection parsed by httptools, with limits on headers and trailers and on requests that wait."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Begin to count the bytes of headers."""
            self._header_bytes = 0
            super().connection_made(transport)

        def data_received(self, data: bytes) -> None:
            """Parse the next bytes, and refuse headers that are too large."""
            self._header_bytes += len(data)
            super().data_received(data)
            if self._header_bytes > self.limits.settings.max_header:
                self.refuse_large_headers()

        def on_headers_complete(self) -> None:
            """Open the request, unless too many wait before it."""
            if len(self.pipeline) >= MAX_PIPELINED:
                self.refuse(503, "Too many requests wait on this connection.", "too many")
                raise httptools.HttpParserError("too many requests")
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            """Receive a part of the body, which does not count as headers."""
            self._header_bytes -= len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            """End the body."""
            self._header_bytes = 0
            super().on_message_complete()

    protocol = HttpToolsConnection


def server_options(settings: ServiceSettings) -> dict[str, Any]:
    """Return the options of a uvicorn server with these limits."""
    return {
        "http": protocol,
        "h11_max_incomplete_event_size": settings.max_header,
        "ws": "none",
        "server_header": False,
    }
