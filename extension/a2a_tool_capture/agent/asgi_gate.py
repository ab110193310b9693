"""ASGI middleware that lets only known callers activate the extension."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from ..spec import strip_headers

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Awaitable[None]]


activation_refused: ContextVar[bool] = ContextVar("activation_refused", default=False)
"""Whether a gate does not know the caller of the current request, whose message may ask without a header."""


@dataclass(frozen=True, repr=False)
class KnownCallers:
    """Callers that may see tool calls: bearers of one of `tokens`, clients whose certificate has one of `subjects`.

    Raises ValueError if both are empty, if a token or subject is empty, or if a string is given instead of a list.
    """

    tokens: Iterable[str] = ()
    subjects: Iterable[str] = ()

    def __post_init__(self) -> None:
        for name in ("tokens", "subjects"):
            given = getattr(self, name)
            if isinstance(given, str | bytes):  # iterating it would give its characters
                raise ValueError(f"{name}: expected a list of strings, got a string; put it into a list")
            object.__setattr__(self, name, tuple(given))
        if not self.tokens and not self.subjects:
            raise ValueError("no caller could activate the extension; pass tokens, or subjects of client certificates")
        if not all(self.tokens) or not all(self.subjects):
            raise ValueError(
                "an empty token or subject would let every caller activate the extension; "
                "check your environment variables"
            )

    def knows_bearer(self, authorization: str) -> bool:
        """Whether an Authorization header carries a known token; compares in constant time."""
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode("utf-8", "replace")
        matches = [hmac.compare_digest(given, known.encode("utf-8")) for known in self.tokens]
        return scheme.lower() == "bearer" and any(matches)

    def knows_subject(self, subject: str) -> bool:
        """Whether a client certificate with this subject (or one of its names) is known."""
        return subject in self.subjects


class ActivationGate:
    """ASGI middleware: unknown callers cannot activate the extension, by a header or in a message.

    The agent responds to them as to any client that does not activate the extension. `tokens` are compared with
    `Authorization: Bearer`. `subjects` are compared with the verified client certificate (`client_cert_name` of
    ASGI's TLS extension) and with the whole value of `subject_header`, if given. Only name a header that your TLS
    terminator sets on every request: otherwise callers can set it themselves.
    """

    def __init__(
        self,
        app: App,
        *,
        tokens: Iterable[str] = (),
        subjects: Iterable[str] = (),
        subject_header: str = "",
    ) -> None:
        self._app = app
        self._known = KnownCallers(tokens, subjects)
        self._subject_header = subject_header.lower().encode("ascii")

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
        tls = (scope.get("extensions") or {}).get("tls") or {}
        if self._known.knows_subject(str(tls.get("client_cert_name") or "")) and not tls.get("client_cert_error"):
            return True
        bearers = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(bearers) == 1 and self._known.knows_bearer(bearers[0].decode("latin-1")):
            return True
        named = [value for name, value in scope["headers"] if name == self._subject_header]
        return len(named) == 1 and self._known.knows_subject(named[0].decode("latin-1"))
