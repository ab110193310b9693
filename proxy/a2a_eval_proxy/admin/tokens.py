"""The tokens of an admin port, and how often they may be guessed.

Wrong tokens are counted by who sends them: whoever guesses has to wait. The right token is let in whatever was counted,
as others may guess from the same address: that of a proxy, or of NAT. What the count bounds are lines of the log; a
token is long enough that no rate of guesses finds it.
"""

from __future__ import annotations

import hmac
import logging
import time
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import Literal

from a2a_tool_capture.recent import Recent

FREE = 10
PAUSE_S = 1.0
MAX_PEERS = 1_024


def network_of(peer: str) -> str:
    """What counts as one sender: an IPv4 address, and the /64 of an IPv6 address, of which one host has them all."""
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    return str(address.ipv4_mapped or f"{IPv6Address(int(address) >> 64 << 64)}/64")


class FailedLogins:
    """After `FREE` wrong tokens, a sender has one attempt in `PAUSE_S`; earlier ones are refused, and not counted.

    Nothing waits: a refused attempt holds no connection and no memory. At most `MAX_PEERS` senders are known, the ones
    that failed last. Times are seconds on any clock that never goes back.
    """

    def __init__(self) -> None:
        self._used_until: Recent[str, float] = Recent(MAX_PEERS)
        """A failure uses `PAUSE_S` of the time of its sender, who may be `FREE` of them ahead."""

    def wait_s(self, peer: str, now: float) -> float:
        """How long this sender has to wait for its next attempt; 0 where it need not."""
        return max(0.0, self._used_until.get(network_of(peer), now) - (FREE - 1) * PAUSE_S - now)

    def failed(self, peer: str, now: float) -> bool:
        """Count a wrong token; whether its sender has to wait now."""
        key = network_of(peer)
        self._used_until[key] = max(self._used_until.get(key, now), now) + PAUSE_S
        return self.wait_s(peer, now) > 0


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
