"""Wrong tokens, counted by who sends them: whoever guesses has to wait. Sans-io: the caller gives the time.

The right token is let in whatever was counted, as others may guess from the same address: that of a proxy, or of NAT.
What the count bounds are lines of the log; a token is long enough that no rate of guesses finds it.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

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
