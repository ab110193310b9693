"""ASGI middleware that lets only known callers activate the extension."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from typing import Any

from ..spec import strip_headers

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Awaitable[None]]


activation_refused: ContextVar[bool] = ContextVar("activation_refused", default=False)
"""Whether a gate does not know the caller of the current request, whose message may ask without a header."""


class ActivationGate:
    """ASGI middleware: unknown callers cannot activate the extension, by a header or in a message.

    The agent responds to them as to any client that does not activate the extension. `tokens` are compared with
    `Authorization: Bearer`. Raises ValueError without a token, for an empty one, or if a string is given instead of a
    list.
    """

    def __init__(self, app: App, *, tokens: Iterable[str]) -> None:
        self._app = app
        if isinstance(tokens, str | bytes):  # iterating it would give its characters
            raise ValueError("tokens: expected a list of strings, got a string; put it into a list")
        self._tokens = tuple(tokens)
        if not self._tokens:
            raise ValueError("no caller could activate the extension; pass tokens")
        if not all(self._tokens):
            raise ValueError(
                "an empty token would let every caller activate the extension; check your environment variables"
            )

    async def __call__(
        self, scope: Scope, receive: Callable[..., Awaitable[Any]], send: Callable[..., Awaitable[Any]]
    ) -> None:
        if scope["type"] != "http" or self._is_known(scope):
            await self._app(scope, receive, send)
            return
        token = activation_refused.set(True)
        try:
            await self._app({**scope, "headers": strip_headers(scope["headers"])}, receive, send)
        finally:
            activation_refused.reset(token)

    def _is_known(self, scope: Scope) -> bool:
        """Whether the one Authorization header has a known token; compares in constant time."""
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        sent = token.strip().encode()
        matches = [hmac.compare_digest(sent, known.encode()) for known in self._tokens]
        return scheme.lower() == "bearer" and any(matches)
