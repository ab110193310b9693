"""Codes of login links and the sessions of pages: each code once and in time, sessions bounded in number and time."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.features.pages.site import CODE_LASTS_S, IDLE_S, MAX_CODES, MAX_SESSIONS, PageSessions


@pytest.mark.parametrize(("after", "opened"), [(CODE_LASTS_S - 1, True), (CODE_LASTS_S, False)])
def test_a_code_opens_one_session_in_time(after: float, opened: bool) -> None:
    sessions = PageSessions()
    sessions.add_code("code", 0.0)
    assert not sessions.redeem("other", "s0", 0.0)
    assert sessions.redeem("code", "s1", after) is opened
    assert sessions.use("s1", after) is opened
    assert not sessions.redeem("code", "s2", after)
    assert not any(sessions.use(name, after) for name in ("s0", "s2", "", "\ud800"))


def test_a_session_lasts_while_it_is_used() -> None:
    sessions = PageSessions()
    sessions.open("used", 0.0)
    sessions.open("closed", 0.0)
    sessions.close("closed")
    assert not sessions.use("closed", 0.0)
    assert sessions.use("used", IDLE_S - 1)
    assert sessions.use("used", 2 * IDLE_S - 2)
    assert not sessions.use("used", 3 * IDLE_S)
    assert not sessions.use("used", 3 * IDLE_S)


def test_the_oldest_code_and_the_session_unused_for_longest_end_first() -> None:
    sessions = PageSessions()
    for number in range(MAX_CODES + 1):
        sessions.add_code(f"code {number}", 0.0)
    for number in range(MAX_SESSIONS):
        sessions.open(f"session {number}", 0.0)
    assert sessions.use("session 0", 1.0)
    assert not sessions.redeem("code 0", "more", 1.0)
    assert sessions.redeem("code 1", "more", 1.0)
    assert [sessions.use(name, 1.0) for name in ("session 0", "session 1", "session 2")] == [True, False, True]
