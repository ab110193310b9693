"""Protocol and trace reconciled: rule by rule, and nothing lost or counted twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from a2a_tool_capture import ToolCall, ToolCallSource, reconcile
from a2a_tool_capture.reconciliation import Reconciliation
from hypothesis import given
from hypothesis import strategies as st

START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def protocol(name: str = "pay", arguments: dict[str, Any] | None = None, call_id: str = "", **more: Any) -> ToolCall:
    return ToolCall(name, arguments or {}, call_id, source=ToolCallSource.A2A_PROTOCOL, **more)


def trace(name: str = "pay", arguments: dict[str, Any] | None = None, call_id: str = "", **more: Any) -> ToolCall:
    return ToolCall(name, {} if arguments is None else arguments, call_id, source=ToolCallSource.OTEL_TRACE, **more)


def unknown(name: str = "pay", call_id: str = "", **more: Any) -> ToolCall:
    """A traced call whose arguments were not recorded."""
    return ToolCall(name, None, call_id, source=ToolCallSource.OTEL_TRACE, **more)


def counts(found: Reconciliation) -> tuple[int, int, int, int]:
    return found.matched_by_id, found.matched_by_signature, found.protocol_only, found.trace_only


def codes(found: Reconciliation) -> list[str]:
    return [finding.code for finding in found.findings]


@pytest.mark.statement(350)
def test_absorb_all_drops_every_trace_call_with_a_known_signature() -> None:
    found = reconcile([protocol("pay")], [trace("pay"), trace("pay"), trace("mail")], absorb_all=True)
    assert [call.name for call in found.tool_calls] == ["pay", "mail"]
    assert found.trace_only == 1
    assert found.protocol_only == 0


# ── arguments that one side lacks ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"sku": "A", "qty": 3}, {"sku": "A"}),  # a framework filled in the tool's default
        ({"sku": "A"}, {"sku": "A", "qty": 3}),
        ({"sku": "A", "qty": 3}, {"sku": "A", "note": "x"}),
        ({"order": {"sku": "A", "qty": 3}}, {"order": {"sku": "A"}}),
        ({"items": [{"sku": "A", "qty": 3}], "n": 1}, {"items": [{"sku": "A"}], "n": 1.0}),
        ({"sku": "A", "how": {"qty": 3}}, {"sku": "A", "how": {}}),
    ],
)
def test_arguments_that_agree_where_both_have_them_are_one_call(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    found = reconcile([protocol("pay", ours, "call-1")], [trace("pay", theirs, "call_x", result="paid")])
    assert [(call.id, call.result) for call in found.tool_calls] == [("call-1", "paid")]
    assert found.tool_calls[0].arguments == theirs | ours
    assert set(found.tool_calls[0].default_arguments) == set(ours) ^ set(theirs)
    assert counts(found) == (0, 1, 0, 0)
    assert "paired_by_order" in codes(found)
    assert {finding.severity for finding in found.findings} == {"info"}


# ── filling, order ──────────────────────────────────────────────────────────────────────────────────────────


# ── whatever comes in ───────────────────────────────────────────────────────────────────────────────────────

names = st.sampled_from(["pay", "mail"])
arguments = st.sampled_from([{}, {"n": 1}, {"n": 1.0}, {"n": 2}])
starts = st.none() | st.integers(0, 5).map(at)


def calls_of(source: ToolCallSource, arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[list[ToolCall]]:
    """Calls of one source, ids unique as after its own deduplication."""
    one = st.builds(
        ToolCall,
        name=names,
        arguments=arguments,
        id=st.sampled_from(["", "", "1", "2", "3"]),
        result=st.none() | st.text("r", max_size=1),
        source=st.just(source),
        started_at=starts,
    )

    def with_distinct_ids(calls: list[ToolCall]) -> list[ToolCall]:
        seen: set[str] = set()
        return [replace(call, id="") if call.id in seen else (seen.add(call.id), call)[1] for call in calls]

    return st.lists(one, max_size=6).map(with_distinct_ids)


protocol_calls = calls_of(ToolCallSource.A2A_PROTOCOL, arguments)
trace_calls = calls_of(ToolCallSource.OTEL_TRACE, st.none() | arguments)


@given(protocol_calls, trace_calls)
def test_every_call_is_accounted_for_exactly_once(ours: list[ToolCall], theirs: list[ToolCall]) -> None:
    found = reconcile(ours, theirs)
    matched = found.matched_by_id + found.matched_by_signature
    assert matched + found.protocol_only == len(ours)
    assert matched + found.trace_only == len(theirs)
    assert len(found.tool_calls) == len(ours) + found.trace_only
    swapped = reconcile(theirs, ours)
    assert (found.matched_by_id, found.matched_by_signature) == (swapped.matched_by_id, swapped.matched_by_signature)
    assert codes(found).count("count_mismatch") == codes(swapped).count("count_mismatch")


@given(protocol_calls, trace_calls)
def test_order(ours: list[ToolCall], theirs: list[ToolCall]) -> None:
    calls = reconcile(ours, theirs).tool_calls
    times = [call.started_at for call in calls]
    if None not in times:
        assert times == sorted(t for t in times if t is not None)
        return
    assert [(call.name, call.id) for call in calls[: len(ours)]] == [(call.name, call.id) for call in ours]
    rest = [call.started_at for call in calls[len(ours) :]]
    known = [moment for moment in rest if moment is not None]
    assert rest == [*sorted(known), *[None] * (len(rest) - len(known))]


LARGE = 1234567890123456789


SAME = [({"n": 1}, {"n": 1.0}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({"n": [0]}, {"n": [-0.0]})]
OTHER = [trace("pay", {"n": True}), trace("pay", {"n": "1"}), trace("pay", {}), trace("mail", {"n": 1})]
DISAGREEING: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"sku": "A", "qty": 3}, {"sku": "B"}),
    ({"sku": "A"}, {"qty": 3}),
    ({}, {"qty": 3}),
    ({"n": 1}, {"n": True, "m": 1}),
    ({"order": {"sku": "A"}}, {"order": {"qty": 3}}),
    ({"items": ["A"]}, {"items": ["A", "B"]}),
]
"""Arguments of a call of the protocol, and of one of the trace."""

OURS = protocol("pay", {"eur": 1}, "1", result="ours")
THEIRS = trace("pay", {"eur": 1}, "x", result="theirs", error="e", started_at=at(0), ended_at=at(1))
WITH_TIMES = replace(OURS, error="", started_at=at(5), ended_at=at(6))
SEEN = ToolCall("search", {"q": 1}, id="1", first_seen_at=5.0, result_seen_at=6.0)
TRACED = ToolCall("search", {"q": 1}, id="1", started_at=at(1), ended_at=at(2))
BY_ID = [
    [protocol("pay", {"eur": 1}, "call_1"), protocol("mail", {}, "call_2")],
    [unknown("mail", "call_2"), unknown("pay", "call_3")],
]

KNOWN: dict[str, Callable[[Any], Any]] = {
    "counts": counts,
    "codes": codes,
    "calls": lambda found: found.tool_calls,
    "names": lambda found: [call.name for call in found.tool_calls],
    "ids": lambda found: [call.id for call in found.tool_calls],
    "findings": lambda found: found.findings,
    "ids and errors": lambda found: [(call.id, call.error) for call in found.tool_calls],
    "ids and results": lambda found: [(call.id, call.result) for call in found.tool_calls],
    "arguments and errors": lambda found: [(call.arguments, call.error) for call in found.tool_calls],
    "arguments and results": lambda found: [(call.arguments, call.result) for call in found.tool_calls],
    "arguments": lambda found: [call.arguments for call in found.tool_calls],
    "entries": lambda found: [(call.name, call.arguments, call.result) for call in found.tool_calls],
    "all": lambda found: found,
    "times": lambda found: [
        (call.started_at, call.ended_at, call.first_seen_at, call.result_seen_at) for call in found.tool_calls
    ],
}
"""What is looked at, by name."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [[protocol("pay", {"eur": 1}, "1")], [trace("pay", {"eur": 2}, "1")]],
            {"calls": [protocol("pay", {"eur": 1}, "1")], "counts": (1, 0, 0, 0), "findings": []},
            id="the same id is one call and the protocol wins",
            marks=pytest.mark.statement(349),
        ),
        pytest.param(
            [[protocol("pay", call_id="1")], [trace("mail", call_id="1")]],
            {"names": ["pay", "mail"], "counts": (0, 0, 1, 1), "codes": ["id_conflict"]},
            id="the same id with another name is no match",
        ),
        pytest.param(
            [
                [protocol("pay", {}, "1", result="one"), protocol("pay", {}, "2", result="two")],
                [trace("pay", {}, "2", error="second"), trace("pay", {}, "1", error="first")],
            ],
            {"ids and errors": [("1", "first"), ("2", "second")], "counts": (2, 0, 0, 0)},
            id="ids match before signatures",
        ),
        pytest.param(
            [[protocol("pay", {"eur": 1})], [trace("pay", {"eur": 2})]],
            {"counts": (0, 0, 1, 1)},
            id="an empty id matches nothing",
        ),
        # Frameworks give their own ids: those of the trace need not be the protocol's.
        pytest.param(
            [[protocol("pay", {}, "call-1")], [trace("pay", {}, "span-7")]],
            {"ids": ["call-1"], "counts": (0, 1, 0, 0), "codes": ["paired_across_ids"]},
            id="calls with different ids may share a signature",
        ),
        pytest.param(
            [
                [protocol("pay", {"eur": n}, "call_0", result=f"paid {n}") for n in (1, 2)],
                [trace("pay", {"eur": n}, "call_0", error=f"{n}") for n in (2, 1, 3)],
            ],
            {
                "arguments and errors": [({"eur": 1}, "1"), ({"eur": 2}, "2"), ({"eur": 3}, "3")],
                "counts": (2, 0, 0, 1),
                "codes": ["id_reused"],
            },
            id="an id that is used again matches by arguments",
        ),
        pytest.param(
            [[protocol("pay"), protocol("pay")], [trace("pay")]],
            {"counts": (0, 1, 1, 0), "codes": ["count_mismatch"]},
            id="a repeat that only the protocol saw is a mismatch too",
        ),
        pytest.param(
            [
                [protocol("pay", {"eur": 1}), protocol("mail"), protocol("pay", {"eur": 2})],
                [unknown("pay", result="first"), unknown("pay", result="second")],
            ],
            {
                "entries": [("pay", {"eur": 1}, "first"), ("mail", {}, None), ("pay", {"eur": 2}, "second")],
                "counts": (0, 2, 1, 0),
            },
            id="unknown arguments match by name and order",
        ),
        # With arguments known, the right partner is found first, whatever came before it.
        pytest.param(
            [
                [protocol("pay", {}), protocol("pay", {"eur": 1})],
                [unknown("pay", result="u"), trace("pay", {}, result="k")],
            ],
            {"arguments and results": [({}, "k"), ({"eur": 1}, "u")]},
            id="unknown arguments are not empty ones",
        ),
        pytest.param(
            [[protocol("pay", {"eur": 1}, "1")], [unknown("pay", "1", result="r")]],
            {"calls": [protocol("pay", {"eur": 1}, "1", result="r")], "counts": (1, 0, 0, 0)},
            id="unknown arguments match by id",
        ),
        pytest.param(
            [[], [unknown("pay"), unknown("pay")]],
            {"arguments": [None, None], "findings": []},
            id="two unknown calls of the trace alone are two",
        ),
        pytest.param(
            [
                [protocol("pay", {"sku": sku, "qty": 3}, f"call-{sku}") for sku in "ABA"],
                [trace("pay", {"sku": sku}, f"x{n}", result=f"{sku}{n}") for n, sku in enumerate("BAAA")],
            ],
            {
                "ids and results": [("call-A", "A1"), ("call-B", "B0"), ("call-A", "A2"), ("x3", "A3")],
                "counts": (0, 3, 0, 1),
            },
            id="each call pairs with the one that agrees most",
        ),
        pytest.param(
            [
                [protocol("pay", {"eur": 1, "to": "x"}, "call_1"), protocol("mail", {}, "call_2")],
                [trace("mail", {}, "call_2"), trace("pay", {"eur": 1}, "call_3")],
            ],
            {"counts": (1, 0, 1, 1)},
            id="where ids meet arguments that agree do not join ids",
        ),
        pytest.param(
            [
                [protocol("b", started_at=at(2)), protocol("a")],
                [trace("c", started_at=at(3)), trace("a", started_at=at(1)), trace("0", started_at=at(0))],
            ],
            {"names": ["0", "a", "b", "c"]},
            id="order is by start where every call has one",
        ),
        pytest.param(
            [
                [protocol("b", started_at=at(9)), protocol("a")],
                [trace("z"), trace("d", started_at=at(2)), trace("c", started_at=at(1))],
            ],
            {"names": ["b", "a", "c", "d", "z"]},
            id="else protocol order then the traces own by start",
        ),
        pytest.param(
            [
                [protocol("pay", {"eur": 1}, "call_1"), protocol("mail", {}, "call_2"), protocol("pay", {"eur": 1})],
                [trace("mail", {}, "call_2"), trace("pay", {"eur": 1}, "call_3"), trace("pay", {"eur": 1}, "call_4")],
            ],
            {"ids": ["call_1", "call_2", "", "call_4"], "counts": (1, 1, 1, 1), "codes": []},
            id="where ids meet calls with different ids are different",
        ),
        pytest.param(
            [[protocol("pay")], [trace("pay", result="1"), trace("pay", result="2"), trace("pay", result="3")]],
            {"entries": [("pay", {}, str(n)) for n in (1, 2, 3)], "counts": (0, 1, 0, 2), "codes": ["count_mismatch"]},
            id="each call of the protocol absorbs one of the trace",
        ),
        pytest.param([[], []], {"all": Reconciliation([], [], 0, 0, 0, 0)}, id="nothing from nothing"),
        pytest.param(
            [
                [protocol("pay", {"qty": 3}, default_arguments=("qty",))],
                [trace("pay", {}, result="paid")],
            ],
            {"calls": [protocol("pay", {"qty": 3}, default_arguments=("qty",), result="paid")]},
            id="a call without its defaults is the call that the model made",
        ),
        pytest.param(
            [
                [protocol("pay", {"sku": "A", "qty": 3}, "1")],
                [trace("pay", {"sku": "A", "qty": 3}, "x", default_arguments=("qty",))],
            ],
            {"calls": [protocol("pay", {"sku": "A", "qty": 3}, "1", default_arguments=("qty",))]},
            id="what the trace knows of defaults is kept",
        ),
        pytest.param(
            [
                [protocol("get", {"id": float(LARGE)}), protocol("get", {"id": float(LARGE)})],
                [trace("get", {"id": LARGE}), trace("get", {"id": LARGE + 1})],
            ],
            {"counts": (0, 2, 0, 0), "codes": []},
            id="numbers that round to the same one are paired off",
        ),
        pytest.param(
            [[protocol("get", {"id": LARGE})], [trace("get", {"id": LARGE + 1})]],
            {"counts": (0, 0, 1, 1)},
            id="whole numbers that nobody rounded are exact",
        ),
        *(
            pytest.param(
                [[protocol("pay", ours)], [trace("pay", theirs)]],
                {"calls": [protocol("pay", ours)], "counts": (0, 1, 0, 0)},
                id=f"{ours} is {theirs}",
                marks=pytest.mark.statement(350),
            )
            for ours, theirs in SAME
        ),
        *(
            pytest.param(
                [[protocol("pay", {"n": 1})], [other]],
                {"counts": (0, 0, 1, 1)},
                id=f"another call {other.name} {other.arguments}",
                marks=pytest.mark.statement(351),
            )
            for other in OTHER
        ),
        *(
            pytest.param(
                [[protocol("pay", ours)], [trace("pay", theirs)]],
                {"counts": (0, 0, 1, 1)},
                id=f"{ours} is not {theirs}",
            )
            for ours, theirs in DISAGREEING
        ),
        *(
            pytest.param(given, {"counts": (1, 0, 1, 1)}, id="where ids meet unknown arguments do not join ids")
            for given in (BY_ID, BY_ID[::-1])
        ),
        pytest.param(
            [[OURS], [THEIRS]],
            {"calls": [replace(OURS, error="e", started_at=at(0), ended_at=at(1))]},
            id="the winner is filled from the loser",
        ),
        pytest.param([[WITH_TIMES], [THEIRS]], {"calls": [WITH_TIMES]}, id="the winner keeps its own"),
        *(
            pytest.param(
                given,
                {"times": [(at(1), at(2), 5.0, 6.0)]},
                id="the times of a trace join those of the protocol",
            )
            for given in ([[SEEN], [TRACED]], [[TRACED], [SEEN]])
        ),
        *(
            pytest.param(
                [[protocol("get", {"id": float(LARGE)}, call_id)], [trace("get", {"id": LARGE}, call_id)]],
                {"names": ["get"], "codes": []},
                id=f"a number that protobuf rounded is that of the trace, {call_id}",
            )
            for call_id in ("", "call_0")
        ),
    ],
)
def test_how_calls_are_matched(given: list[Any], expected: Any) -> None:
    """Calls of the protocol and of a trace, and what becomes of them."""
    found = reconcile(*given)
    assert {name: KNOWN[name](found) for name in expected} == expected
