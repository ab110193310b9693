"""The wire log: what it keeps is bounded, whatever passes, and the newest stays."""

from __future__ import annotations

from a2a_eval_proxy.admin.wire_api import shown_wire
from a2a_eval_proxy.memory import MIB
from a2a_eval_proxy.net.http1_messages import request_head
from a2a_eval_proxy.privacy.policy import NO_PRIVACY
from a2a_eval_proxy.relay.wire_log import MAX_AGE_S, MAX_AT_ONCE, MAX_EXCHANGE_BYTES, MAX_PER_S, WireLog, WireRecord
from hypothesis import given
from hypothesis import strategies as st

FIELDS = [(b"authorization", b"Bearer s3cret"), (b"traceparent", b"00-1")]
HEAD = request_head(b"POST", b"/x?api_key=sk-ant-api03-AAAAAAAAAAAAAAAAAAAAAAAA", FIELDS)


def exchange(log: WireLog, turn_id: str = "", body: bytes = b"", *, at: float = 0.0, tasks: str = "") -> WireRecord:
    one = log.begin(at, HEAD, body)
    assert one is not None
    one.turn_id, one.task_ids = turn_id, list(tasks)
    return one


def ids(log: WireLog, turn_id: str, *tasks: str, began: float = 0.0, ended: float | None = None) -> list[float]:
    return [one.started_at for one in log.of_turn(turn_id, tasks, began, ended)]


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["body", "part", "event", "end"]), st.integers(0, 40_000)),
        max_size=MAX_AT_ONCE,
    )
)
def test_the_log_is_bounded_and_counts_what_it_holds(steps: list[tuple[int, str, int]]) -> None:
    log = WireLog(60_000)
    made: dict[int, WireRecord] = {}
    for key, what, size in steps:
        if what == "body" or key not in made:
            made[key] = exchange(log, f"t{key}", bytes(size))
        elif what == "part":
            made[key].part(bytes(size), 1.0)
        elif what == "event":
            made[key].is_stream = True
            made[key].part(bytes(size), 1.0)
        else:
            made[key].end(2.0, "", b"")
        assert log.total == sum(one.size for one in log) <= 60_000
        held = sum(len(one.body) + sum(len(data) for _, data in one.parts) for one in log)
        assert held <= log.total
        assert all(not one.parts for one in made.values() if one.forgotten)


def test_the_oldest_exchanges_are_given_up_first() -> None:
    log = WireLog(10_000)
    first, second = exchange(log, "a", bytes(3_000)), exchange(log, "b", bytes(2_000))
    second.part(bytes(4_000), 1.0)
    assert (first.forgotten, second.forgotten) == (True, False)
    first.part(b"later", 2.0)
    assert (first.parts, ids(log, "a"), ids(log, "b")) == ([], [], [0.0])


def test_exchanges_are_forgotten_after_a_day() -> None:
    log = WireLog(16 * MIB)
    exchange(log, "a", at=0.0)
    exchange(log, "b", at=3600.0)
    log.expire(MAX_AGE_S + 1.0)
    assert [one.turn_id for one in log] == ["b"]
    log.expire(2 * MAX_AGE_S)
    assert (list(log), log.total) == ([], 0)


def test_of_a_large_body_the_beginning_is_kept_and_the_rest_is_counted() -> None:
    log = WireLog(16 * MIB)
    one = exchange(log, "a", bytes(3 * MAX_EXCHANGE_BYTES))
    assert (len(one.body), one.body_is_cut) == (MAX_EXCHANGE_BYTES // 2, True)
    chunk = bytes(1_000_000)
    for _ in range(32):
        one.part(chunk, 1.0)
    kept = sum(len(data) for _, data in one.parts)
    assert kept + one.left_out == 32_000_000
    assert log.total <= MAX_EXCHANGE_BYTES + 10_000
    assert one.parts[0][1] is chunk, "bytes are referred to, not copied"


def test_events_after_the_limit_are_counted() -> None:
    one = exchange(WireLog(16 * MIB), "a")
    one.is_stream = True
    for _ in range(5):
        one.part(bytes(MAX_EXCHANGE_BYTES // 3), 1.0)
    assert (len(one.parts), one.events_left_out) == (3, 2)


def test_a_turn_has_the_exchanges_about_its_tasks_while_it_was_open() -> None:
    log = WireLog(16 * MIB)
    opener = exchange(log, "a", at=10.0, tasks="T")
    opener.end(11.0, "", b"")
    for at, tasks in ((5.0, "T"), (12.0, "T"), (13.0, "U"), (20.0, "T")):
        exchange(log, "", at=at, tasks=tasks).end(at + 1, "", b"")
    exchange(log, "b", at=14.0, tasks="T")
    assert ids(log, "a", began=10.0, ended=15.0) == [10.0, 12.0]
    assert ids(log, "unknown") == []
    assert ids(log, "elsewhere", "U", began=10.0) == [13.0]


def test_json_has_no_credentials() -> None:
    one = exchange(WireLog(16 * MIB), "a", b"{}")
    one.status, one.headers = 200, [(b"Set-Cookie", b"id=s3cret"), (b"content-type", b"text/plain"), (b"X-Key", b"s3c")]
    one.part(b"\xff\x00", 1.0)
    (content,) = shown_wire(NO_PRIVACY, "a", [one])["exchanges"]
    assert "s3c" not in str(content)
    assert "sk-ant" not in str(content)
    assert content["request"]["headers"] == [["authorization", "***"], ["traceparent", "00-1"]]
    assert content["response"]["headers"] == [["Set-Cookie", "***"], ["content-type", "text/plain"], ["X-Key", "***"]]
    assert content["response"]["body"] == {"bytes": 2, "base64": "/wA="}


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=300))
def test_of_many_exchanges_some_are_kept(gaps: list[float]) -> None:
    log, now, kept = WireLog(16 * MIB), 1_000_000.0, []
    for gap in gaps:
        now += gap
        if log.begin(now, HEAD, b"") is not None:
            kept.append(now)
        assert sum(moment > now - 1.0 for moment in kept) <= MAX_AT_ONCE + MAX_PER_S
    assert len(kept) >= min(len(gaps), MAX_AT_ONCE)
    assert log.begin(now + 1.0, HEAD, b"") is not None
