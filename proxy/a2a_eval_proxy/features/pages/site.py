"""The pages as routes of the admin port: rendering, security headers, assets, errors, login."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Any

from a2a_tool_capture.recent import Recent
from jinja2 import Template
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send
from tool_call_evaluators import report

from ...admin.api_route import form_of
from ...admin.control import Control
from ...admin.guard import LOGIN_PATH, AdminTokens, digest, peer_of
from ...admin.long_computations import seen
from ...feature import features
from ...store import StoreError
from . import run_pages, turn_list, turn_page
from .rendering import Links, environment
from .screen import RecentFigures, Screen, ScreenFunction, View

CODE_LASTS_S = 900.0
IDLE_S = 7 * 86_400.0
MAX_SESSIONS = 64
MAX_CODES = 8


class PageSessions:
    """Codes and sessions, both bounded in number: the oldest code, and the session unused for longest, end first.

    Times are seconds on any clock that never goes back.
    """

    def __init__(self) -> None:
        self._codes: Recent[bytes, float] = Recent(MAX_CODES)  # when each expires
        self._sessions: Recent[bytes, float] = Recent(MAX_SESSIONS)  # when each was used last, the longest ago first

    def add_code(self, code: str, now: float) -> None:
        """From now on `redeem` accepts `code`, once, until it expires."""
        self._codes[digest(code)] = now + CODE_LASTS_S

    def redeem(self, code: str, session: str, now: float) -> bool:
        """Open `session` for a code that is neither used nor expired. Returns whether it was opened."""
        expires = self._codes.pop(digest(code), None)
        if expires is None or now >= expires:
            return False
        self.open(session, now)
        return True

    def open(self, session: str, now: float) -> None:
        """Open a session for a caller who has shown the admin token."""
        self._sessions[digest(session)] = now

    def use(self, session: str, now: float) -> bool:
        """Returns whether a session is open; it stays open for `IDLE_S` from now."""
        key = digest(session)
        used = self._sessions.pop(key, None)
        if used is None or now - used >= IDLE_S:
            return False
        self._sessions[key] = now
        return True

    def close(self, session: str) -> None:
        self._sessions.pop(digest(session), None)


REST_S = 0.08
"""Least time from the begin of fragments to that of the next ones of their address: what a page itself waits."""


class SharedFragments:
    """Begins to make the fragments of an address every `REST_S` at most. Single event loop."""

    def __init__(self) -> None:
        self._next: dict[Hashable, asyncio.Task[Response]] = {}  # by address: those that are not begun yet
        self._free_at: dict[Hashable, float] = {}
        """By address: when the next may be begun, on the clock of the event loop."""

    async def of(self, address: Hashable, make: Callable[[], Awaitable[Response]]) -> Response:
        """What `make` of this or of a concurrent request returns. It is begun after this call: no news is missed.

        Raises what it raises.
        """
        task = self._next.get(address)
        if task is None:
            task = self._next[address] = asyncio.create_task(self._make(address, make))
            task.add_done_callback(seen)
        return await asyncio.shield(task)

    async def _make(self, address: Hashable, make: Callable[[], Awaitable[Response]]) -> Response:
        now = asyncio.get_running_loop().time
        await asyncio.sleep(self._free_at.get(address, 0.0) - now())
        del self._next[address]
        self._free_at = {other: at for other, at in self._free_at.items() if at > now()} | {address: now() + REST_S}
        return await make()


class Login:
    """Opens sessions and recognizes them.

    The name of the cookie is the process's own: cookies are shared by all ports of a host.
    """

    def __init__(self, tokens: AdminTokens) -> None:
        self._tokens = tokens
        self._sessions = PageSessions()
        self._cookie = f"a2a-eval-proxy-{secrets.token_hex(4)}"

    def new_code(self) -> str:
        """A code for a login link, which works once within 15 minutes."""
        code = secrets.token_urlsafe(24)
        self._sessions.add_code(code, time.monotonic())
        return code

    def has_session(self, scope: Scope) -> bool:
        """Whether the cookie of a request is that of an open session."""
        return self._sessions.use(HTTPConnection(scope).cookies.get(self._cookie, ""), time.monotonic())

    def log_out(self, request: Request) -> None:
        self._sessions.close(request.cookies.get(self._cookie, ""))

    def by_code(self, request: Request, code: str) -> Response | None:
        """Redirects to the pages with a new session; None for a code that is used, expired or wrong."""
        peer, session = peer_of(request.scope), secrets.token_urlsafe(24)
        if not self._sessions.redeem(code, session, time.monotonic()):
            self._tokens.wrong(peer, "a used, old or wrong login link")
            return None
        return self._into(request, session)

    async def by_token(self, request: Request) -> Response | None:
        """The same for a form with the admin token."""
        given = (await form_of(request, fields=5, most=2_000)).get("token", "")
        if self._tokens.check(given.strip(), peer_of(request.scope)) != "admin":
            return None
        session = secrets.token_urlsafe(24)
        self._sessions.open(session, time.monotonic())
        return self._into(request, session)

    def _into(self, request: Request, session: str) -> Response:
        response = RedirectResponse("./", 303)
        response.set_cookie(
            self._cookie,
            session,
            max_age=int(IDLE_S),
            path=None,  # that of the login, which includes the prefix of a proxy in front
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response


_MORE = [screen for feature in features() if feature.screens for screen in feature.screens()]
SCREENS: tuple[Screen, ...] = (*turn_list.SCREENS, *turn_page.SCREENS, *run_pages.SCREENS, *_MORE)

PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send `Origin: null` with forms
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_ASSET_HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Assets(StaticFiles):
    """The files of the pages and of the report, which a browser asks for again: they may be of another version."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        response = super().file_response(*given, **named)
        response.headers.update(_ASSET_HEADERS)
        return response


class Site:
    """The pages. Without `tokens`, no login is needed."""

    def __init__(self, control: Control, tokens: AdminTokens | None) -> None:
        self._control = control
        self._figures = RecentFigures(control.store)
        self._fragments = SharedFragments()
        self._environment = environment(control.trace_url)
        self._nav = [(screen.path.strip("/"), screen.nav) for screen in SCREENS if screen.nav]
        self._login = Login(tokens) if tokens else None
        self.routes: list[BaseRoute] = [
            *(route for screen in SCREENS for route in self._routes_of(screen)),
            Mount("/assets", Assets(packages=[(__package__, "assets"), (report.__name__, "assets")])),
            Route(LOGIN_PATH, self._log_in, methods=["GET", "POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    def has_session(self, scope: Scope) -> bool:
        return self._login is not None and self._login.has_session(scope)

    def address(self, base: str) -> str:
        """Where to open the pages of the proxy at `base`: with a token, a link that works once."""
        return f"{base}/" if self._login is None else f"{base}{LOGIN_PATH}?code={self._login.new_code()}"

    def _routes_of(self, screen: Screen) -> list[Route]:
        routes = [Route(screen.path, self._page(screen, screen.values))]
        if screen.action is not None:
            routes.append(Route(screen.path, self._page(screen, screen.action), methods=["POST"]))
        return routes

    def _page(self, screen: Screen, function: ScreenFunction) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request, fragments: str | None) -> Response:
            values = await function(View(self._control, request, Links.of(request), self._figures))
            if isinstance(values, Response):
                return values
            # In a thread: a long conversation takes 100 ms, in which traffic must not wait.
            return await asyncio.to_thread(self._render, request, screen.template, values, fragments=fragments)

        async def page(request: Request) -> Response:
            try:
                fragments = request.query_params.get("fragment")
                if fragments is None or request.method == "POST":
                    return await answer(request, None)
                if not set(fragments.split(",")) <= set(screen.fragments):
                    raise HTTPException(400, f"fragment: expected names among {', '.join(screen.fragments)}")
                address = request.scope["raw_path"], request.scope["query_string"]
                return await self._fragments.of(address, partial(answer, request, fragments))
            except HTTPException as error:
                return self._error(request, error.status_code, error.detail)
            except StoreError as error:
                return self._error(request, 503, str(error))

        return page

    def _render(
        self, request: Request, name: str, values: Mapping[str, Any], status: int = 200, fragments: str | None = None
    ) -> Response:
        link = Links.of(request)
        template = self._environment.get_template(name)
        own = {
            "link": link,
            "nav": [item for item in self._nav if item[0] != "agents" or self._control.scorings],
            "paths": [screen.path for screen in SCREENS],
            "agent_names": self._control.agent_names,
            "here": request.scope["path"].strip("/"),
            "query": request.query_params,
            "with_login": self.has_session(request.scope),
        }
        context = {**own, **values}
        if fragments is None:
            text = template.render(context)
        else:
            text = "".join(self._fragment(template, name, context) for name in fragments.split(","))
        return HTMLResponse(text.encode("utf-8", "replace"), status, headers=PAGE_HEADERS)

    @staticmethod
    def _fragment(template: Template, name: str, context: Mapping[str, Any]) -> str:
        content = "".join(template.blocks[name](template.new_context(dict(context))))
        return f'<div data-fragment="{name}">{content}</div>'

    def not_found(self, request: Request) -> Response:
        return self._error(request, 404, f"There is no page at {request.url.path[:200]}.")

    def _error(self, request: Request, status: int, message: str) -> Response:
        return self._render(request, "error.html", {"status": status, "message": message}, status)

    async def _log_in(self, request: Request) -> Response:
        if self._login is None:
            raise HTTPException(404, "no login is needed: the admin port has no token")
        code = request.query_params.get("code")
        if request.method == "POST":
            opened = await self._login.by_token(request)
            problem = "That is not the admin token."
        else:
            opened = self._login.by_code(request, code) if code and request.method == "GET" else None
            problem = "This link was used before, or it is older than 15 minutes." if code else ""
        if opened is None:
            return self._render(request, "login.html", {"problem": problem, "again": None}, 401 if problem else 200)
        opened.headers.update(PAGE_HEADERS)
        return opened

    async def _log_out(self, request: Request) -> Response:
        if self._login is not None:
            self._login.log_out(request)
        return RedirectResponse("login", 303)

    async def ask_to_log_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        query = request.scope["query_string"]
        again = b"./" + request.scope["raw_path"].rpartition(b"/")[2] + (b"?" + query if query else b"")
        response = self._render(request, "login.html", {"problem": "", "again": again.decode("latin-1")}, 401)
        await response(scope, receive, send)
