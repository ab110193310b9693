"""Uvicorn's HTTP/1.1 with limits: parses one request at a time, limits clients' time, ignores offers to upgrade."""

from __future__ import annotations

import asyncio
import logging
import select
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from .client_limits import ClientLimits
from .client_transport import ClientTransport
from .client_watch import ON_GONE
from .repeated_head import KEPT, RepeatedHead
from .response_cycle import OldResponseCycle, ResponseCycle

logger = logging.getLogger(__name__)

_END_OF_SECTION = b"\r\n\r\n"
"""Ends a header section, and a chunked body with its trailer section."""

_MAX_AHEAD = 64 * 1024
"""Bytes of further requests, beyond which nothing is read until a response is complete."""

_MAX_TURNED_AWAY = 32
"""Connections beyond the limit that are closed in stages; further ones are closed at once, and may lose their 503."""

_LEFT = getattr(select, "POLLRDHUP", 0)

_LESSONS = 5
"""Headers that are remembered, each in place of the one before, before a connection has repeated one."""

_ASGI = {"version": "3.0", "spec_version": "2.3"}


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with these changes:

    - The parser gets the bytes of one request at a time; those of the next wait, unparsed and limited, until the
      response is complete. Uvicorn parses all received data, and keeps kilobytes for each request of few bytes.
    - A request whose header repeats an earlier one is not parsed (`RepeatedHead`).
    - A header or trailer section, or a line of chunk framing, has a limit (431).
    - Trailer fields are dropped. Uvicorn adds them to the header (RFC 9110, section 6.5.1, forbids it): a client
      could change with them the header that the agent gets.
    - An offer to upgrade is ignored (RFC 9110, section 7.8), and the request is served. Uvicorn loses its body.
    - An HTTP/1.0 client gets no chunks (`OldResponseCycle`) and no 100 Continue.
    - Clients have limits of time and number (`ClientLimits`); violations are counted, and logged once a minute.
    - A callback (`ON_GONE`) reports when the client disconnects, also while reading is paused.
    - Header and first bytes of a response are sent together, and connections close in stages (`ClientTransport`).
    """

    flow: _Flow

    def __init__(self, *arguments: Any, limits: ClientLimits, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self._unparsed = b""
        self._last = b""
        self._in_request = False
        self._upgrading = False
        self._body_left = 0
        self._unread = 0
        self._head_since: float | None = self.loop.time()
        self._received_at = 0.0
        self._unsent = 0
        self._unsent_since = 0.0
        self._on_gone: Callable[[], None] | None = None
        self._repeated: RepeatedHead | None = None
        self._lessons = _LESSONS
        self._turned_away = False

    # ── the connection ──────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self._wire = ClientTransport(transport, self.loop, self._limits)
        super().connection_made(self._wire)  # type: ignore[arg-type]  # it is one, but in name
        self.flow = _Flow(self._wire)  # type: ignore[arg-type]  # as above
        if self._limits.is_full(len(self.connections)):
            self._turn_away()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._turned_away:
            self._limits.turned_away -= 1
        self._unparsed = b""
        self._gone()
        # All refer to this object. The memory of a connection, with TLS 160 KB, must not wait for garbage collection.
        self.scope = self.cycle = self._repeated = None  # type: ignore[assignment]  # as before the first request

    def shutdown(self) -> None:
        """Close once the current response, if any, is sent: the server stops."""
        self._wire.hurried = True
        super().shutdown()

    @property
    def may_be_receiving(self) -> bool:
        """Whether a request is arriving, or may be: its header, its body, or a further request."""
        return self._in_request or self._head_since is not None or bool(self._unparsed)

    def check(self, now: float) -> None:
        """End the connection if its client is too slow or has disconnected. To be called about once a second."""
        limits, flow = self._limits, self.flow
        if flow.write_paused or self.transport.is_closing():
            unsent = self.transport.get_write_buffer_size()
            if not unsent or unsent != self._unsent:
                self._unsent, self._unsent_since = unsent, now
            elif now - self._unsent_since >= limits.send_timeout_s:
                limits.broken("send_timeout")
                self.transport.abort()
                return
        if self.transport.is_closing():
            return
        if flow.read_paused and _LEFT and self._has_left():
            self.transport.abort()
        elif self._head_since is not None:
            if now - self._head_since >= limits.header_timeout_s:
                self._refuse(408, "header_timeout", "The header of the request took too long.")
        elif self._in_request:
            if flow.read_paused or self.cycle.waiting_for_100_continue:
                self._received_at = now  # it is the client that waits
            elif now - self._received_at >= limits.body_timeout_s:
                self._refuse(408, "body_timeout", "The body of the request took too long.")
        elif not self._is_answering() and now - self._received_at >= self.timeout_keep_alive:
            self.transport.close()

    def _has_left(self) -> bool:
        """Whether the client has closed its side; for when the event loop does not read, and would not notice."""
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket").fileno(), _LEFT)
        return bool(poll.poll(0))

    def _set_on_gone(self, on_gone: Callable[[], None] | None) -> None:
        self._on_gone = on_gone
        if on_gone is not None and self.parser is None:
            self._gone()

    def _gone(self) -> None:
        on_gone, self._on_gone = self._on_gone, None
        if on_gone is not None:
            on_gone()

    # ── what comes in ───────────────────────────────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        self._received_at = self.loop.time()
        self._unparsed = self._unparsed + data if self._unparsed else data
        self._parse()

    def on_response_complete(self) -> None:
        """As in uvicorn, without its queue of parsed requests, and with `check` in place of timers."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._received_at = self.loop.time()
        self.flow.resume_reading()
        if self._unparsed:
            self.loop.call_soon(self._parse)

    def _parse(self) -> None:
        """Parse what has arrived. An exception is a fault of the proxy, and never the client's 400."""
        try:
            self._parse_received()
        except Exception:
            logger.exception("a request could not be read; the client gets a 500")
            self._refuse(500, "internal_error", "The proxy failed to read the request.")

    def _parse_received(self) -> None:
        """Give the parser the bytes of the current request, or of the next once the response is complete."""
        data, at = self._unparsed, 0
        if self._repeated is not None and self._head_since is None and self._take_repeated(self._repeated, data):
            data = b""
        size = len(data)
        while at < size and not self.transport.is_closing():
            if not self._in_request:
                if self._is_answering():
                    break
                if self._head_since is None:
                    self._head_since = self.loop.time()
            end = at + self._body_left
            if end == at:
                end = self._end_of_section(data, at)
            elif end > size:
                end = size
            piece = data if end - at == size else data[at:end]
            self._unread += len(piece)
            begins = self._head_since is not None and not self._in_request
            self._feed(piece)
            if begins and self._body_left:
                self._remember(piece)
            at = end
        self._unparsed = data[at:] if at < size and not self.transport.is_closing() else b""
        if self._unparsed or self.flow.held:
            self.flow.hold(full=len(self._unparsed) > _MAX_AHEAD)

    def _take_repeated(self, repeated: RepeatedHead, data: bytes) -> bool:
        """Begin the next request without the parser, if `data` is a whole one with this header."""
        if self._in_request or self._is_answering() or self._last or self.transport.is_closing():
            return False
        found = repeated.repeated(data)
        if found is None:
            return False
        self._lessons = _LESSONS
        scope, body = found
        self._begin_cycle(ResponseCycle, scope, keep_alive=True)
        cycle = self.cycle
        cycle.body, cycle.more_body = body, False  # type: ignore[assignment]  # uvicorn extends it otherwise
        cycle.message_event.set()
        return True

    def _remember(self, head: bytes) -> None:
        """Remember the header of the request that has begun, whose body follows."""
        if self._lessons > 0 and self.cycle.keep_alive and not self.expect_100_continue:
            self._lessons -= 1
            self._repeated = RepeatedHead.of(head, self._body_left, self.scope)  # type: ignore[arg-type]  # a dict

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _end_of_section(self, data: bytes, at: int) -> int:
        """Where the bytes from `at` on may begin to belong to another section, or another request."""
        if self._last:
            seam = (self._last + data[at : at + 3]).find(_END_OF_SECTION)
            if seam >= 0:
                end = at + seam + len(_END_OF_SECTION) - len(self._last)
                self._last = b""
                return end
        found = data.find(_END_OF_SECTION, at)
        if found >= 0:
            self._last = b""
            return found + len(_END_OF_SECTION)
        self._last = (self._last + data[max(at, len(data) - 3) :])[-3:]
        return len(data)

    def _feed(self, piece: bytes) -> None:
        try:
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade:
                self._continue_without_upgrade()
        except httptools.HttpParserError as error:
            cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
            if isinstance(cause, _BadRequestError):
                self._refuse(400, "bad_request", str(cause))
            elif isinstance(cause, httptools.HttpParserError):
                self._refuse(400, "bad_request", "Invalid HTTP request received.")
            else:
                raise
            return
        if self._unread > self._limits.max_unread_bytes:
            self._refuse(431, "header_too_large", "The request's header fields are too large.")

    def _turn_away(self) -> None:
        """Refuse a connection beyond the limit. It does not count as a connection while it closes."""
        self.connections.discard(self)
        self._turned_away = True
        self._limits.turned_away += 1
        self._wire.hurried = True
        if self._limits.turned_away > _MAX_TURNED_AWAY:
            self._head_since = None  # close at once, whatever the client sends
        self._refuse(503, "too_many_connections", "The proxy has too many client connections.")

    def _continue_without_upgrade(self) -> None:
        """Parse the header again without its offer to upgrade, since the parser stops after such a header."""
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        lines += [b"%b: %b" % item for item in self.headers if item[0] != b"upgrade"]
        self._upgrading = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(b"\r\n".join(lines) + _END_OF_SECTION)

    def _refuse(self, status: int, problem: str, message: str) -> None:
        """End the connection, with an error response unless a response has begun."""
        self._limits.broken(problem)
        in_body = self._in_request and self._head_since is None
        begun = in_body and self.cycle.response_started
        if self._is_answering():
            self.cycle.disconnected = True  # so that the rest of the response is not sent
            self.cycle.message_event.set()
        silent = not self._in_request and not self._unread and status == 408  # no request waits for a response
        if not begun and not silent:
            content = message.encode()
            self.transport.write(
                STATUS_LINE[status]
                + b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(content)
                + b"connection: close\r\n\r\n"
                + content
            )
        self.transport.close()
        self._head_since = None
        self._in_request = False
        self._gone()

    # ── parser callbacks ────────────────────────────────────────────────────────────────────────────────

    def on_message_begin(self) -> None:
        self._in_request = True
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise _BadRequestError("CONNECT is not supported.")
            self._upgrading = True
            return
        hosts = length = 0
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                length = int(value)
        if hosts > 1:  # RFC 9112, section 3.2
            raise _BadRequestError("The request has more than one Host.")
        scope = self._new_scope()
        if scope["http_version"] == "1.0":
            self._begin_cycle(OldResponseCycle, scope, keep_alive=False)  # no 100 Continue: RFC 9110, section 10.1.1
        else:
            keep_alive = self.parser.should_keep_alive()
            self._begin_cycle(ResponseCycle, scope, keep_alive=keep_alive, expects=self.expect_100_continue)
        self._unread = 0
        self._head_since = None
        self._body_left = length
        self.headers = []  # the scope keeps the header fields; trailer fields are dropped

    def _new_scope(self) -> dict[str, Any]:
        """The ASGI scope, without what our applications do not use."""
        url = self.url if self.url.startswith(b"/") else _with_path(self.url)
        target = httptools.parse_url(url)
        if not target.path.isascii():  # RFC 9112, section 3.2
            raise _BadRequestError("The request's path has bytes that are not ASCII; percent-encode them.")
        path = target.path.decode()
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": self.parser.get_http_version(),
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "headers": self.headers,
            "extensions": {ON_GONE: self._set_on_gone, KEPT: {}},
            "method": self.parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            # ASGI does not distinguish an empty query from none
            "raw_path": target.path + b"?" if url.endswith(b"?") else target.path,
            "query_string": target.query or b"",
        }

    def _begin_cycle(
        self, kind: type[ResponseCycle], scope: dict[str, Any], *, keep_alive: bool, expects: bool = False
    ) -> None:
        """Start the application for a request, with our own cycle."""
        self.scope = scope  # type: ignore[assignment]  # uvicorn lists the keys
        self.cycle = kind(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=expects,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        if self._body_left:
            self._body_left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._upgrading:
            return
        self._unread = 0
        self._in_request = False
        super().on_message_complete()


def _with_path(target: bytes) -> bytes:
    """A target in absolute form, whose path may be empty (RFC 9112, section 3.2.2), with a path."""
    parts = httptools.parse_url(target)
    if parts.path is not None:
        return target
    return b"/?" + parts.query if parts.query is not None else b"/"


class _BadRequestError(Exception):
    """A request that is valid for the parser, and must still be refused."""


class _Flow(FlowControl):
    """Uvicorn's flow control, which can be held: then uvicorn does not resume reading."""

    held = False

    def hold(self, *, full: bool) -> None:
        """Read nothing while `full`."""
        if full:
            self.held = True
            self.pause_reading()
        elif self.held:
            self.held = False
            self.resume_reading()

    def resume_reading(self) -> None:
        if self.read_paused and not self.held:
            super().resume_reading()
