"""Who may use the admin port: holders of the token and page sessions; without a token all but pages of other sites."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ..net.browser_guard import Headers, HostNames, Refusal, cross_origin_write, refusal

HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
_NOT_PAGES = ("/api/", "/metrics")


@dataclass(frozen=True, slots=True)
class PageAccess:
    """What the guard must know of the pages."""

    has_session: Callable[[Headers], bool]  # whether the request's cookie is that of an open session
    is_open: Callable[[str], bool]  # whether everybody may have this path: the login and the assets
    login: ASGIApp  # answers browsers that ask for a page without a session


class AdminGuard:
    """An ASGI application that refuses requests before they reach `app`.

    Requests with the bearer token pass. All others are refused if they name a foreign host or come from a page of
    another site, and changes if they come from a page of another origin. Then, where there is a token, they need the
    session of a page.
    """

    def __init__(self, app: ASGIApp, token: str | None, names: HostNames, pages: PageAccess | None = None) -> None:
        self._app = app
        self._token = token.encode() if token else None
        self._names = names
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app
        if scope["type"] == "http" and scope["path"] not in HEALTH_PATHS and not self._has_token(scope["headers"]):
            answer = self._without_token(scope)
        await answer(scope, receive, send)

    def _has_token(self, headers: Headers) -> bool:
        if self._token is None:
            return False
        given = next((value for name, value in headers if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")  # the scheme in any case: RFC 9110, section 11.1
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)

    def _without_token(self, scope: Scope) -> ASGIApp:
        headers, method, path = scope["headers"], scope["method"], scope["path"]
        pages, is_page = self._pages, not path.startswith(_NOT_PAGES)
        has_session = self._token is None or (pages is not None and pages.has_session(headers))
        if self._token is not None and not has_session and (pages is None or not is_page):
            return _needs_token
        if refused := refusal(headers, self._names, navigation=is_page and method == "GET"):
            return _refused(refused)
        if refused := cross_origin_write(method, headers, of_browser=self._token is not None):
            return _refused(refused)
        if has_session or pages is None or pages.is_open(path):
            return self._app
        return pages.login if _wants_page(headers) else _needs_token


def _wants_page(headers: Headers) -> bool:
    return any(name == b"accept" and b"text/html" in value for name, value in headers)


def _refused(refused: Refusal) -> ASGIApp:
    return JSONResponse({"error": refused.message}, refused.status)


_needs_token = JSONResponse(
    {"error": "a bearer token is needed: Authorization: Bearer <admin token>"},
    401,
    headers={"WWW-Authenticate": "Bearer"},
)
