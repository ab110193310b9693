"""The login: a link that works once, or the admin token, becomes a session, which a cookie carries."""

from __future__ import annotations

import hmac
import secrets
import time

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..admin.request_body import form_of
from ..net.browser_guard import Headers
from ..net.page_sessions import IDLE_S, PageSessions

LOGIN_PATH = "/login"
_MAX_FORM_BYTES = 10_000


class Login:
    """Opens sessions and recognizes them.

    The name of the cookie is the process's own: cookies are shared by all ports of a host.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._sessions = PageSessions()
        self._cookie = f"a2a-eval-proxy-{secrets.token_hex(4)}"

    def new_code(self) -> str:
        """A code for a login link, which works once within 15 minutes."""
        code = secrets.token_urlsafe(24)
        self._sessions.add_code(code, time.monotonic())
        return code

    def has_session(self, headers: Headers) -> bool:
        """Whether the cookie in these headers is that of an open session."""
        return any(self._sessions.use(session, time.monotonic()) for session in self._sessions_in(headers))

    def log_out(self, headers: Headers) -> None:
        """End the session of these headers, if any."""
        for session in self._sessions_in(headers):
            self._sessions.close(session)

    def _sessions_in(self, headers: Headers) -> list[str]:
        """The values of the cookie; a browser sends one, or none."""
        pairs = (pair for name, value in headers if name == b"cookie" for pair in value.decode("latin-1").split(";"))
        return [value for key, _, value in (pair.strip().partition("=") for pair in pairs) if key == self._cookie]

    def by_code(self, code: str) -> Response | None:
        """Redirects to the pages with a new session; None for a code that is used, expired or wrong."""
        session = secrets.token_urlsafe(24)
        return self._into(session) if self._sessions.redeem(code, session, time.monotonic()) else None

    async def by_token(self, request: Request) -> Response | None:
        """The same for a form with the admin token."""
        given = (await form_of(request, _MAX_FORM_BYTES)).get("token", "")
        if not hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token.encode()):
            return None
        session = secrets.token_urlsafe(24)
        self._sessions.open(session, time.monotonic())
        return self._into(session)

    def _into(self, session: str) -> Response:
        response = RedirectResponse("./", 303)
        # No path: that of the login, which includes the prefix of a proxy in front.
        response.set_cookie(self._cookie, session, max_age=int(IDLE_S), path=None, httponly=True, samesite="strict")
        return response
