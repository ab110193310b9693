"""Wrong tokens by sender: how many are free, how long one waits, who counts as one sender, how many are known."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.admin.guard import FREE, MAX_PEERS, PAUSE_S, FailedLogins, network_of
from hypothesis import given
from hypothesis import strategies as st


def attempts(logins: FailedLogins, peer: str, times: list[float]) -> int:
    """How many of the attempts at these times are checked, all of them wrong."""
    looked_at = 0
    for now in times:
        if not logins.wait_s(peer, now):
            logins.failed(peer, now)
            looked_at += 1
    return looked_at


def test_three_hundred_guesses_in_a_moment_are_ten() -> None:
    assert attempts(FailedLogins(), "10.0.0.1", [0.6 * number / 300 for number in range(300)]) == FREE


@given(st.lists(st.floats(0, 100), min_size=1, max_size=400).map(sorted))
def test_no_more_are_looked_at_than_time_allows(times: list[float]) -> None:
    assert attempts(FailedLogins(), "10.0.0.1", times) <= FREE + (times[-1] - times[0]) / PAUSE_S


def test_who_waits_is_told_how_long_and_gets_one_attempt_after_it() -> None:
    logins = FailedLogins()
    assert [logins.failed("10.0.0.1", 0.0) for _ in range(FREE)] == [False] * (FREE - 1) + [True]
    assert logins.wait_s("10.0.0.1", 0.25) == 0.75
    assert logins.wait_s("10.0.0.2", 0.25) == 0
    assert logins.wait_s("10.0.0.1", 1.0) == 0
    assert logins.failed("10.0.0.1", 1.0)
    assert logins.wait_s("10.0.0.1", 1.0) == 1.0
    assert not logins.failed("10.0.0.1", 1_000.0)  # who has paused begins again


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_who_counts_as_one_sender(peer: str, network: str) -> None:
    assert network_of(peer) == network


def test_the_number_of_senders_is_bounded() -> None:
    logins = FailedLogins()
    for number in range(3 * MAX_PEERS):
        logins.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0.0)
    assert len(logins._used_until) == MAX_PEERS
