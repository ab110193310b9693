"""Sessions of the pages on the admin port: a code that works once becomes a session.

Sans-io: the caller supplies random texts and the time. Codes and sessions are kept as digests: the time of a
lookup does not depend on how many characters are right.
"""

from __future__ import annotations

from hashlib import sha256

from a2a_tool_capture.recent import Recent

CODE_LASTS_S = 900.0
IDLE_S = 7 * 86_400.0
MAX_SESSIONS = 64
MAX_CODES = 8


class PageSessions:
    """Codes and sessions, both bounded in number: the oldest code, and the session unused for longest, end first.

    Times are seconds on any clock that never goes back.
    """

    def __init__(
        self,
        *,
        code_lasts_s: float = CODE_LASTS_S,
        idle_s: float = IDLE_S,
        max_sessions: int = MAX_SESSIONS,
        max_codes: int = MAX_CODES,
    ) -> None:
        self._code_lasts_s = code_lasts_s
        self._idle_s = idle_s
        self._codes: Recent[bytes, float] = Recent(max_codes)
        """The time at which each expires."""
        self._sessions: Recent[bytes, float] = Recent(max_sessions)
        """The time of the last use of each, the longest ago first."""

    def add_code(self, code: str, now: float) -> None:
        """From now on `redeem` accepts `code`, once, until it expires."""
        self._codes[_digest(code)] = now + self._code_lasts_s

    def redeem(self, code: str, session: str, now: float) -> bool:
        """Open `session` for a code that is neither used nor expired. Returns whether it was opened."""
        expires = self._codes.pop(_digest(code), None)
        if expires is None or now >= expires:
            return False
        self.open(session, now)
        return True

    def open(self, session: str, now: float) -> None:
        """Open a session for a caller who has shown the admin token."""
        self._sessions[_digest(session)] = now

    def use(self, session: str, now: float) -> bool:
        """Returns whether a session is open; it stays open for `idle_s` from now."""
        key = _digest(session)
        used = self._sessions.pop(key, None)
        if used is None or now - used >= self._idle_s:
            return False
        self._sessions[key] = now
        return True

    def close(self, session: str) -> None:
        """End a session; one that is not open stays so."""
        self._sessions.pop(_digest(session), None)


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()
