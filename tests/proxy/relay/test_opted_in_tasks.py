"""Which tasks a caller asked the extension for, and who is the same caller."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_eval_proxy.protocol.agent_card import ApiKey
from a2a_eval_proxy.relay.opted_in_tasks import Callers, OptedInTasks

ANN, BOB = b"ann", b"bob"


def test_what_was_asked_for_is_remembered_of_who_asked_alone() -> None:
    asked = OptedInTasks()
    asked.add(ANN, ["t1"])
    asked.add(None, ["t2"])
    found = {(who, task) for who in (ANN, BOB, None) for task in ("t1", "t2", "t3") if asked.has(who, task)}
    assert found == {(ANN, "t1")}


def test_the_one_not_heard_of_for_longest_goes_first() -> None:
    asked = OptedInTasks(limit=2)
    asked.add(ANN, ["t1", "t2"])
    asked.add(ANN, ["t1"])
    asked.add(BOB, ["t3"])
    assert [asked.has(ANN, "t1"), asked.has(ANN, "t2"), asked.has(BOB, "t3")] == [True, False, True]


def test_a_webhook_of_a_task_is_remembered_whoever_configured_it() -> None:
    asked = OptedInTasks(limit=2)
    for task_id in ("t1", "t2", "t1", "t3"):
        asked.add_webhook([task_id])
    assert [asked.has_webhook(task_id) for task_id in ("t1", "t2", "t3", "")] == [True, False, True, False]
    assert not asked.has(ANN, "t1")


# ── who is the same ─────────────────────────────────────────────────────────────────────────────────────────

PEER = "192.0.2.1"


def request(*headers: tuple[str, str], query: str = "", peer: str | None = PEER) -> tuple[list[Any], bytes, str | None]:
    return [(name.encode(), value.encode()) for name, value in headers], query.encode(), peer


CREDENTIALS = [
    "authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "proxy-authorization",
    "x-goog-api-key",
]
GATEWAY = ["x-forwarded-for", "forwarded", "x-real-ip"]
SECRET, ADDRESS = "Bearer ann", "198.51.100.1"
# Two requests, and whether they are of one caller.
PAIRS: list[tuple[Any, Any, bool]] = [
    (request(("accept", "a")), request(("accept", "b")), True),
    (request(), request(("authorization", "")), True),
    (request(), request(peer="192.0.2.2"), False),
    (request(("api-key", "a"), ("apikey", "b")), request(("api-key", "a6:apikey1:b")), False),
    *(
        pair
        for name in CREDENTIALS
        for pair in (
            (request((name, SECRET)), request(("accept", "*/*"), (name, SECRET), ("date", "now"), peer="::1"), True),
            (request((name, SECRET)), request((name, "Bearer bob")), False),
            (request((name, SECRET)), request((name, SECRET), ("x-access-token", "2")), False),
            (request((name, SECRET)), request(), False),
        )
    ),
    *(
        pair
        for name in GATEWAY
        for pair in (
            (request((name, ADDRESS)), request((name, "198.51.100.2")), False),
            (request((name, ADDRESS)), request((name, ADDRESS), peer="192.0.2.2"), False),
            (request((name, ADDRESS)), request(), False),
            (request((name, ADDRESS)), request(peer=ADDRESS), False),
        )
    ),
]


@pytest.mark.parametrize(("first", "second", "same"), PAIRS)
def test_callers_are_told_apart_by_credentials_or_addresses(first: Any, second: Any, same: bool) -> None:
    callers = Callers()
    assert (callers.key(*first) == callers.key(*second)) is same
    assert callers.key(*request(peer=None)) is None


def test_by_what_the_card_declares() -> None:
    callers = Callers()
    declared = {ApiKey("header", "X-Shop-Key"), ApiKey("query", "key"), ApiKey("cookie", "session")}

    def key(*headers: tuple[str, str], query: str = "") -> bytes | None:
        return callers.key(*request(*headers, query=query), declared)

    assert key(("x-shop-key", "ann")) != key(("x-shop-key", "bob"))
    assert key(query="a=1&key=ann") == key(query="key=ann&a=2")
    assert key(query="key=ann") != key(query="key=bob")
    assert callers.key(*request(query="key=ann")) == callers.key(*request(query="key=bob"))


def test_keys_hold_no_secret_and_hold_in_one_process_only() -> None:
    shown = request(("authorization", "Bearer secret"))
    first, second = Callers().key(*shown), Callers().key(*shown)
    assert first is not None
    assert second is not None
    assert first != second
    assert len(first) == 16
