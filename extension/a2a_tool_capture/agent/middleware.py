"""ASGI middleware for any A2A server: declares the extension and removes tool calls from other responses."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from enum import Enum, auto
from http import HTTPStatus
from typing import Any

from ..card_search import WELL_KNOWN_PATHS
from ..extension_filter import ExtensionFilter, names_extension
from ..recorder import ToolCallRecorder
from ..spec import DESCRIPTION, EXTENSIONS_HEADERS, URI, requested_uris

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_ALWAYS_LEFT_OUT = frozenset({b"accept-encoding"})  # compressed bodies cannot be filtered
_LEFT_OUT_FOR_CARDS = _ALWAYS_LEFT_OUT | {b"if-none-match", b"if-modified-since"}  # validators of the unchanged card
_OF_OTHER_BYTES = frozenset({b"content-length", b"etag", b"last-modified", b"content-md5", b"repr-digest"})
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")

_asks: ContextVar[bool] = ContextVar("asks", default=False)


def request_asks() -> bool:
    """Whether the request that `CapturingMiddleware` is serving in this context activates the extension."""
    return _asks.get()


class CapturingMiddleware:
    """For `app.add_middleware(CapturingMiddleware, recorder=recorder)`; `recorder` records the agent's tool calls.

    Declares the extension on the agent card and removes the card's signatures, which no longer match. Removes the
    extension from every response to a request that does not activate it in a header (A2A 1.0, section 3.2.6; in 0.3
    the header has another name), whatever the server has stored. The agent adds the calls: `CapturingExecutor` on an
    a2a-sdk server, or the bridge of a framework. The middleware does not filter webhooks: a server that pushes tasks
    pushes their calls. Configure no push sender, or use `CapturingRequestHandler`.
    """

    def __init__(self, app: App, *, recorder: ToolCallRecorder) -> None:
        self._app = app
        self._recorder = recorder

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = [value.decode("latin-1") for name, value in scope["headers"] if name in EXTENSIONS_HEADERS]
        asks = self._recorder.enabled and URI in requested_uris(asked)
        is_card = scope["path"].endswith(WELL_KNOWN_PATHS)
        left_out = _LEFT_OUT_FOR_CARDS if is_card else _ALWAYS_LEFT_OUT
        headers = [(name, value) for name, value in scope["headers"] if name not in left_out]
        response = _FilteredResponse(send, shows_calls=asks, declares=self._recorder.enabled, is_card=is_card)
        token = _asks.set(asks)
        try:
            await self._app({**scope, "headers": headers}, receive, response)
        finally:
            _asks.reset(token)


class _Form(Enum):
    """How a response is filtered."""

    DOCUMENT = auto()
    STREAM = auto()
    OTHER = auto()


class _FilteredResponse:
    """Sends a response on, filtered if necessary: documents as a whole, streams event by event."""

    def __init__(self, send: Send, *, shows_calls: bool, declares: bool, is_card: bool) -> None:
        self._send = send
        self._shows_calls = shows_calls
        self._declares = declares
        self._is_card = is_card
        self._start: Message = {}
        self._form = _Form.OTHER
        self._held = b""
        """Received part of an incomplete document or event."""
        self._withheld: set[str] = set()
        """Ids of the artifacts of a stream that the client has not received."""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = self._started(message)
            if self._form is not _Form.DOCUMENT:
                await self._send(self._start)
        elif message["type"] != "http.response.body" or self._form is _Form.OTHER:
            await self._send(message)
        elif self._form is _Form.STREAM:
            body = self._events(message.get("body", b""), more=message.get("more_body", False))
            await self._send({**message, "body": body})
        else:
            self._held += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send_document()

    async def _send_document(self) -> None:
        body = self._document() if self._held else b""
        length = (b"content-length", str(len(body)).encode("ascii"))
        await self._send({**self._start, "headers": [*self._start["headers"], length]})
        await self._send({"type": "http.response.body", "body": body})

    def _started(self, start: Message) -> Message:
        self._is_card = self._is_card and start["status"] == HTTPStatus.OK
        headers = [(name.lower(), value) for name, value in start.get("headers", ())]
        kinds = b",".join(value for name, value in headers if name == b"content-type").lower()
        if b"json" in kinds:
            self._form = _Form.DOCUMENT
        elif b"text/event-stream" in kinds and not self._shows_calls:
            self._form = _Form.STREAM
        else:
            return start
        if any(name == b"content-encoding" for name, _ in headers):
            raise RuntimeError(
                "the response is compressed although the request accepts no compression, and cannot be filtered; add "
                "the compressing middleware after CapturingMiddleware, so that it is the outer one"
            )
        return {**start, "headers": [(name, value) for name, value in headers if name not in _OF_OTHER_BYTES]}

    def _document(self) -> bytes:
        may_be_card = self._declares and (self._is_card or b'"capabilities"' in self._held)
        has_calls = not self._shows_calls and names_extension(self._held)
        if not may_be_card and not has_calls:
            return self._held
        payload = json.loads(self._held)
        changed = may_be_card and declare_extension(payload, is_card=self._is_card)
        if has_calls:
            payload, changed = ExtensionFilter().value(payload), True
        return _written(payload) if changed else self._held

    def _events(self, piece: bytes, *, more: bool) -> bytes:
        self._held += piece
        out = b""
        while end := _EVENT_END.search(self._held):
            out += self._filtered(self._held[: end.start()], self._held[end.start() : end.end()])
            self._held = self._held[end.end() :]
        if not more:
            out += self._filtered(self._held, b"")
        return out

    def _filtered(self, event: bytes, end: bytes) -> bytes:
        """A server-sent event without tool calls; b"" for an event that exists only for them."""
        lines = event.splitlines()
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
        is_named = names_extension(event)
        if not (is_named or (data and self._withheld)):
            return event + end
        payload = json.loads(data)
        shown = ExtensionFilter(withheld=self._withheld).event(payload)
        if shown is None:
            return b""
        if shown is payload and not is_named:
            return event + end
        kept = [line for line in lines if not line.startswith(b"data:")]
        line_end = end[: len(end) // 2] or b"\n"
        return line_end.join([*kept, b"data: " + _written(shown)]) + end


def _written(payload: Any) -> bytes:
    return json.dumps(payload, ensure_ascii=False).encode("utf-8")


def declare_extension(payload: Any, *, is_card: bool) -> bool:
    """Declare the extension on the agent card in `payload`; returns whether `payload` changed.

    `is_card`: `payload` is a card; otherwise it may be the response with the extended card. Signatures are removed
    from a card that changes.
    """
    card = payload
    if not is_card and isinstance(payload, dict) and isinstance(payload.get("result"), dict):
        card = payload["result"]
    if not isinstance(card, dict) or not (is_card or ("capabilities" in card and "name" in card)):
        return False
    capabilities = card.get("capabilities")
    if not isinstance(capabilities, dict):
        capabilities = card["capabilities"] = {}
    extensions = capabilities.get("extensions")
    if not isinstance(extensions, list):
        extensions = capabilities["extensions"] = []
    if any(isinstance(extension, dict) and extension.get("uri") == URI for extension in extensions):
        return False
    extensions.append({"uri": URI, "description": DESCRIPTION, "required": False})
    card.pop("signatures", None)
    return True
