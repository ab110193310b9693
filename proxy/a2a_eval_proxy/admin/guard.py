"""Who may use the admin port: holders of a token, and page sessions; without a token all but pages of other sites.

Wrong tokens are counted in the log. A token is long enough that no rate of guesses finds it.
"""

from __future__ import annotations

import hmac
import logging
from hashlib import sha256
from typing import Any, Literal, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..net.browser_guard import READS, Headers, HostNames, Refusal, cross_origin_write, refusal
from ..telemetry.problem_log import ProblemLog

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)  # logins and changes are logged whatever `log_level` is


class AdminTokens:
    """The admin token, and a token that reads the metrics only. Compared as digests: the time shows nothing of them."""

    def __init__(self, admin: str, metrics: str | None = None) -> None:
        self._admin = digest(admin)
        self._metrics = digest(metrics) if metrics else b""
        self._failed = ProblemLog(logger, "login failed {count} time(s), last: {what} from {peer}", logging.WARNING)

    def check(self, token: str, peer: str) -> Literal["admin", "metrics"] | None:
        """Which token it is, None for a wrong one."""
        given = digest(token)
        is_admin, is_metrics = hmac.compare_digest(given, self._admin), hmac.compare_digest(given, self._metrics)
        if not is_admin and not is_metrics:
            self.wrong(peer, "a wrong token")
            return None
        return "admin" if is_admin else "metrics"

    def wrong(self, peer: str, what: str) -> None:
        """Log what was no key to this port: how often it came, and the last one."""
        self._failed.seen(what=what, peer=peer or "an unknown address")


def digest(token: str) -> bytes:
    """What is kept and compared in place of a secret."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
METRICS_PATH = "/metrics"
_NOT_PAGES = ("/api/", METRICS_PATH)
_WAITS = "/api/flush"  # changes nothing, though it is a POST


LOGIN_PATH = "/login"


class Pages(Protocol):
    """What the admin port shows in a browser: to everybody, the login and what is below `/assets/`."""

    routes: list[BaseRoute]

    def has_session(self, scope: Scope) -> bool:
        """Whether the request's cookie is that of an open session."""

    async def ask_to_log_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers browsers that ask for a page without a session."""

    def not_found(self, request: Request) -> Response:
        """Answers browsers that ask for a page that does not exist."""

    def address(self, base: str) -> str:
        """Where to open the pages of the proxy at `base`: with a token, a link that works once."""


class AdminGuard:
    """An ASGI application that refuses requests before they reach `app`.

    Requests with the admin token pass, and those with the metrics token to the metrics. All others are refused if they
    name a foreign host or come from a page of another site, and changes if they come from a page of another origin.
    Where there is a token, they need the session of a page. Changes and logins are logged.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: AdminTokens | None,
        names: HostNames,
        pages: Pages | None = None,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._names = names
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        peer = peer_of(scope)
        answer, by = self._admitted(scope, peer)
        if by:
            is_change = scope["method"] not in READS and scope["path"] != _WAITS
            is_login = self._tokens and scope["path"] == LOGIN_PATH and b"code=" in scope["query_string"]
            if is_change or is_login:
                send = _logged(scope, by, peer, send)
        await answer(scope, receive, send)

    def _admitted(self, scope: Scope, peer: str) -> tuple[ASGIApp, str]:
        """What answers a request, and by what its sender is known; "" for a request that is refused."""
        token = _bearer(scope["headers"])
        if self._tokens is None or token is None:
            return self._without_token(scope)
        which = self._tokens.check(token, peer)
        if which == "admin":
            return self._app, "admin token"
        if which is None:
            return self._without_token(scope)
        if scope["path"] == METRICS_PATH and scope["method"] in READS:
            return self._app, "metrics token"
        return _refused(Refusal(403, f"this token reads {METRICS_PATH} only")), ""

    def _without_token(self, scope: Scope) -> tuple[ASGIApp, str]:
        headers, path = scope["headers"], scope["path"]
        pages = self._pages
        has_session = self._tokens is None or (pages is not None and pages.has_session(scope))
        if self._tokens is not None and not has_session and (pages is None or not _is_page(path)):
            return _needs_token, ""
        method = scope["method"]
        refused = refusal(headers, self._names, navigation=_is_page(path) and method == "GET") or cross_origin_write(
            method, headers, of_browser=self._tokens is not None
        )
        if refused:
            return _refused(refused), ""
        if has_session or pages is None or path == LOGIN_PATH or path.startswith("/assets/"):
            by = "no login" if self._tokens is None else "session" if has_session else "login"
            return self._app, by
        return pages.ask_to_log_in if wants_page(scope) else _needs_token, ""


def peer_of(scope: Scope) -> str:
    """The address of who sends the request; "" where it is not known."""
    client: Any = scope.get("client")
    return client[0] if client else ""


def _logged(scope: Scope, by: str, peer: str, send: Send) -> Send:
    """Logs a change when the response begins, unless it is refused; without the query, which may have a login code."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            logger.info("%s %r by %s from %s", scope["method"], scope["path"], by, peer or "an unknown address")
        await send(message)

    return sending


def _bearer(headers: Headers) -> str | None:
    """The bearer token of a request; its scheme may be in any case: RFC 9110, section 11.1."""
    given = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, token = given.partition(b" ")
    return token.strip().decode("utf-8", "surrogateescape") if scheme.lower() == b"bearer" else None


def _is_page(path: str) -> bool:
    return not path.startswith(_NOT_PAGES)


def wants_page(scope: Scope) -> bool:
    """Whether a browser asks for a page, so that no JSON should answer."""
    accepts = any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
    return accepts and _is_page(scope["path"])


def _refused(refused: Refusal) -> ASGIApp:
    return JSONResponse({"error": refused.message}, refused.status)


_needs_token = JSONResponse(
    {"error": "a bearer token is needed: Authorization: Bearer <admin token>"},
    401,
    headers={"WWW-Authenticate": "Bearer"},
)
