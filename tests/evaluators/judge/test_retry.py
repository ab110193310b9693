"""What is worth repeating, and when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.judge.transport import LONGEST_BACKOFF_S, asked_wait, backoff, is_transient

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_transient(status):
    assert is_transient(status)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422])
def test_not_transient(status):
    assert not is_transient(status)


def test_a_used_up_quota_does_not_come_back():
    assert is_transient(429, "rate_limit_exceeded")
    assert not is_transient(429, "insufficient_quota")


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_waits_grow_to_a_limit_and_are_never_short(attempt, fraction):
    longest = min(LONGEST_BACKOFF_S, 0.5 * 2 ** min(attempt, 99))
    assert longest / 2 <= backoff(attempt, fraction) <= longest
    assert longest / 2 <= backoff(attempt) <= longest


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "5"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "5"}, 5.0),
        ({"retry-after": "Sat, 31 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 31 Jan 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 31 Jan 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after": "later"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_what_a_server_asks_for(headers, expected):
    assert asked_wait(headers, NOW) == expected
