"""HTTP/1.1 to the agent: pooled connections, bytes in and out as they are, nothing decoded or followed.

Written for the forwarding path, where a general-purpose client costs more than the rest of the proxy (`make bench`):
the parser is httptools', the rest is what a pass-through needs. Header names, values and their order are the
caller's; bodies are relayed as they arrive, with back-pressure both ways. Three rules hold by construction:

- The framing of a request is computed from the body that is sent (`http1_messages.framed`).
- A connection has one owner, which releases it once, as a whole (`http_connection.SentRequest`).
- A connection on which the agent sent anything unrequested is not used (`Connection.is_quiet`).
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable

from .http1_messages import (
    RawHeaders,
    UpstreamCutError,
    UpstreamError,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
    request_head,
)
from .http_connection import Body, Connection, SentRequest, tls_problem

__all__ = [
    "HttpClient",
    "RawHeaders",
    "SentRequest",
    "UpstreamCutError",
    "UpstreamError",
    "UpstreamTimeoutError",
    "UpstreamUnreachableError",
    "request_head",
]

KEEPALIVE_S = 4.0
"""Uvicorn and Node close idle connections after 5 s; a request sent on a closing connection would be lost."""

_SOON_S = 1.0
"""An agent that closes an idle connection sooner, unannounced, may close any idle connection."""

_WARY_S = 60.0
"""For this time after that, its youngest connections get no request that must not be sent twice."""

_SETTLED_S = 0.1
"""An idle connection of this age is no longer one of the youngest: the agent would have closed it by then."""

_MAX_IDLE = 512
_SAFE = b"GET ", b"HEAD ", b"OPTIONS "


class HttpClient:
    """Connections to one origin. All methods belong to the event loop it is used in."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        tls_name: str | None = None,
        connect_timeout_s: float = 10.0,
        response_timeout_s: float | None = None,
        max_connections: int = 10_000,
        max_header_bytes: int = 65_536,
    ) -> None:
        """`tls_name`: the name that the certificate must have; None: `host`."""
        self._host = host
        self._port = port
        self.tls = tls
        """For new connections; None: plain text. May be replaced at any time."""
        self._tls_name = tls_name
        self._connect_timeout_s = connect_timeout_s
        self._response_timeout_s = response_timeout_s
        self._max_header_bytes = max_header_bytes
        self._places = asyncio.Semaphore(max_connections)
        """For requests: as many as there may be connections, since one is made where none is idle."""
        self._idle: deque[Connection] = deque()
        self._wary_until = 0.0
        self._closed = False

    def request(
        self, method: bytes, target: bytes, headers: RawHeaders, body: Body = b"", *, length: int | None = None
    ) -> Awaitable[SentRequest]:
        """As `send`, with a head of these parts. `headers` must name the host."""
        return self.send(request_head(method, target, headers), body, length=length)

    async def send(
        self,
        head: bytes,
        body: Body = b"",
        *,
        length: int | None = None,
        waits: bool = False,
    ) -> SentRequest:
        """Send a request that begins with `request_head`; returns when the response's header has arrived.

        `waits`: the response may take any time.

        The client frames the body: bytes by their length; an iterator by `length`, which it must then yield exactly,
        or else in chunks. Raises UpstreamError. A request that never got a response on a reused connection is sent
        once more if its method is safe (RFC 9110, section 9.2.2) and its body is bytes: an iterator has been used up.
        """
        may_repeat = head.startswith(_SAFE) and isinstance(body, bytes)
        is_repeated = False
        while True:
            await self._places.acquire()
            try:
                reusable = None if is_repeated else self._reusable(may_repeat=may_repeat)
                connection = reusable or await self._connect()
            except BaseException:
                self._places.release()
                raise
            timeout_s = None if waits else self._response_timeout_s
            exchange = SentRequest(connection, head, timeout_s, self._max_header_bytes, self._release)
            try:
                exchange.send(body, length)
                while not exchange.status:
                    await exchange.news()
                return exchange
            except BaseException as error:
                exchange.close()
                if not (isinstance(error, UpstreamCutError) and connection.used and may_repeat):
                    raise
                is_repeated = True  # on a new one: not another that may be closing, too

    def close(self) -> None:
        """Close idle connections; busy ones close when their response is done."""
        self._closed = True
        while self._idle:
            self._idle.pop().abort()

    async def dial(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Open a connection for `protocol`. Raises OSError."""
        name = self._tls_name if self.tls else None
        await asyncio.get_running_loop().create_connection(
            protocol, self._host, self._port, ssl=self.tls, server_hostname=name
        )

    # ── the pool ────────────────────────────────────────────────────────────────────────────────────────

    def _reusable(self, *, may_repeat: bool) -> Connection | None:
        now = time.monotonic()  # the event loop's own clock may not advance while it works
        wary = now < self._wary_until and not may_repeat
        while self._idle:
            # Usually the connection used last is the least likely to be closing.
            connection = self._idle.popleft() if wary else self._idle.pop()
            if wary and now - connection.idle_since < _SETTLED_S and connection.open:
                self._idle.appendleft(connection)
                return None
            if now - connection.idle_since < KEEPALIVE_S and connection.is_quiet():
                return connection
            self._note_close(connection)
            connection.abort()
        return None

    def _note_close(self, connection: Connection) -> None:
        """Note that an idle connection is not usable any more; be wary where the agent closed it early."""
        now = time.monotonic()
        if connection.used and not connection.aborted and now - connection.idle_since < _SOON_S:
            self._wary_until = now + _WARY_S

    def _release(self, connection: Connection, is_reusable: bool) -> None:
        """An exchange has ended: another one can have its connection, or its place."""
        self._places.release()
        if not is_reusable or self._closed or len(self._idle) >= _MAX_IDLE:
            connection.abort()
            return
        connection.idle_since = time.monotonic()
        while self._idle and self._idle[0].idle_since <= connection.idle_since - KEEPALIVE_S:
            self._idle.popleft().abort()
        self._idle.append(connection)

    async def _connect(self) -> Connection:
        connection = Connection(self._note_close)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self.dial(lambda: connection)
        except BaseException as error:
            connection.abort()
            if isinstance(error, TimeoutError):
                raise UpstreamTimeoutError(f"no connection within {self._connect_timeout_s:g} s") from None
            if isinstance(error, OSError):
                raise UpstreamUnreachableError(refusal(error)) from error
            raise
        return connection


def refusal(error: OSError) -> str:
    """Why there is no connection."""
    if isinstance(error, ConnectionRefusedError):
        return "Connection refused"  # asyncio says otherwise
    return tls_problem(error) if isinstance(error, ssl.SSLError) else error.strerror or str(error)
