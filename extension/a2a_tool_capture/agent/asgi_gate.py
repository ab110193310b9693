"""ASGI middleware that lets only known callers activate the extension."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextvars import ContextVar
from typing import Any

from ..spec import strip_headers

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Awaitable[None]]


activation_refused: ContextVar[bool] = ContextVar("activation_refused", default=False)
"""Whether a gate does not know the caller of the current request, whose message may ask without a header."""


class KnownTokens:
    """The tokens of callers that may see tool calls.

    Raises ValueError without a token, for an empty one, or if a string is given instead of a list.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        if isinstance(tokens, str | bytes):  # iterating it would give its characters
            raise ValueError("tokens: expected a list of strings, got a string; put it into a list")
        self._tokens = tuple(tokens)
        if not self._tokens:
            raise ValueError("no caller could activate the extension; pass tokens")
        if not all(self._tokens):
            raise ValueError(
                "an empty token would let every caller activate the extension; check your environment variables"
            )

    def has_bearer(self, authorizations: Sequence[str | bytes]) -> bool:
        """Whether the values of the Authorization header are one with a known token; compares in constant time."""
        if len(authorizations) != 1 or isinstance(authorizations[0], bytes):
            return False
        scheme, _, token = authorizations[0].partition(" ")
        given = token.strip().encode("utf-8", "replace")
        matches = [hmac.compare_digest(given, known.encode("utf-8")) for known in self._tokens]
        return scheme.lower() == "bearer" and any(matches)


class ActivationGate:
    """ASGI middleware: unknown callers cannot activate the extension, by a header or in a message.

    The agent responds to them as to any client that does not activate the extension. `tokens` are compared with
    `Authorization: Bearer`.
    """

    def __init__(self, app: App, *, tokens: Iterable[str]) -> None:
        self._app = app
        self._known = KnownTokens(tokens)

    async def __call__(
        self, scope: Scope, receive: Callable[..., Awaitable[Any]], send: Callable[..., Awaitable[Any]]
    ) -> None:
        given = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"authorization"]
        if scope["type"] != "http" or self._known.has_bearer(given):
            await self._app(scope, receive, send)
            return
        token = activation_refused.set(True)
        try:
            await self._app({**scope, "headers": strip_headers(scope["headers"])}, receive, send)
        finally:
            activation_refused.reset(token)
