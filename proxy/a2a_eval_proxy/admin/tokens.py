"""The tokens of an admin port, and how often they may be guessed."""

from __future__ import annotations

import hmac
import logging
import time
from hashlib import sha256
from typing import Literal

from .failed_logins import PAUSE_S, FailedLogins

logger = logging.getLogger(__name__)
logger.setLevel(logging.WARNING)  # failed logins are logged whatever `log_level` is


class TooManyGuessesError(Exception):
    """What was sent was wrong, and its sender has to wait `wait_s` seconds for a further attempt to count."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many wrong tokens came from this address; wait {wait_s:.1f} s")
        self.wait_s = wait_s


class AdminTokens:
    """The admin token, and a token that reads the metrics only. Compared as digests: the time shows nothing of them."""

    def __init__(self, admin: str, metrics: str | None = None) -> None:
        self._admin = _digest(admin)
        self._metrics = _digest(metrics) if metrics else b""
        self._failed = FailedLogins()

    def check(self, token: str, peer: str) -> Literal["admin", "metrics"] | None:
        """Which token it is, whoever has guessed from the same address; None for a wrong one. Raises as `wrong`."""
        given = _digest(token)
        is_admin, is_metrics = hmac.compare_digest(given, self._admin), hmac.compare_digest(given, self._metrics)
        if not is_admin and not is_metrics:
            self.wrong(peer, "a wrong token")
            return None
        return "admin" if is_admin else "metrics"

    def wrong(self, peer: str, what: str) -> None:
        """Count and log what was no key to this port.

        Raises TooManyGuessesError, and does neither, if this sender has failed too often: nothing waits here.
        """
        if wait_s := self._failed.wait_s(peer, time.monotonic()):
            raise TooManyGuessesError(wait_s)
        limited = self._failed.failed(peer, time.monotonic())
        further = f"; further ones get 429 for {PAUSE_S:g} s, and no line" if limited else ""
        logger.warning("login failed: %s from %s%s", what, peer or "an unknown address", further)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
