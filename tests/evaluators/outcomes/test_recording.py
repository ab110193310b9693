"""From recorded traffic to a suite: what is expected, what is volatile, what is left out."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.turn_samples import call, finding, turn
from tool_call_evaluators import parse_suite
from tool_call_evaluators.matching.arguments import ArgumentMatcher
from tool_call_evaluators.model import ExpectedCall
from tool_call_evaluators.outcomes.recording import Context, expected_value, record_case, record_suite
from tool_call_evaluators.suite.writing import MAX_LENGTH, suite_dict

RECORDED = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
UUID = "0d9a52b6-6b5a-4a62-9f5d-2f1c3f0a9b11"


def expected(*seen, said: str = ""):
    return expected_value(seen, Context(said, RECORDED))


def recorded(turns, **options):
    text = record_suite(turns, **options)
    return parse_suite(text), text


def test_a_case_of_one_conversation_is_the_one_that_is_recorded():
    turns = [
        turn("1", "Where is ORD-1?", [call("lookup", order_id="ORD-1", at="2026-11-21T09:00:03Z")], conversation="c"),
        turn(
            "2", "Pay it back", [call("refund", error="no money", result=None)], conversation="c", case="old", start=9
        ),
    ]
    case, comments = record_case(turns, taken=["where-is-ord-1"])
    (recorded_case,) = recorded([{**item, "case_id": None} for item in turns])[0].cases
    assert (case.id, recorded_case.id) == ("where-is-ord-1-2", "where-is-ord-1")
    assert case.turns == recorded_case.turns
    assert comments == ("without tool_error, as these tools failed: refund",)
    assert record_case(turns, case_id="mine")[0].id == "mine"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"state": "TASK_STATE_FAILED"}, "failed conversations"),
        ({"status": "pending"}, "failed conversations"),
        (
            {"user": " "},
            "conversations with a message that a suite cannot send: empty, not kept, or for some waiting calls",
        ),
        ({"findings": [finding("no_capture")]}, "conversations with unknown tool calls"),
    ],
)
def test_no_case_is_made_of_what_is_not_recorded(fields, reason):
    with pytest.raises(ValueError, match=f"no case is made of {reason}"):
        record_case([turn("1", **fields)])


def test_cases_are_named_by_what_was_said_first():
    suite, _ = recorded(
        [
            turn("1", "Where is order ORD-1001?", start=1),
            turn("2", "  …  ", start=2),
            turn("3", "where is order ORD-1001", start=3),
            turn("4", "word " * 40, start=4),
            turn("5", "Wo ist mein Paket, bitte schön?", start=5),
            turn("6", "x" * 200, start=6),
        ]
    )
    ids = [case.id for case in suite.cases]
    assert ids[:3] == ["where-is-order-ord-1001", "case", "where-is-order-ord-1001-2"]
    assert ids[4] == "wo-ist-mein-paket-bitte-schön"
    assert all(len(case_id) <= MAX_LENGTH for case_id in ids)


def test_cases_name_their_agents_where_there_are_several():
    of_run = {"conversation": "c", "attempt": {"number": 1}}
    several = [
        turn("1", "Where is it?", [call("lookup")], start=1, agent_name="orders", **of_run),
        turn("2", "Refund it.", [call("refund")], start=2, agent_name="refunds", **of_run),
        turn("3", "Where is it now?", start=3, agent_name="orders", **of_run),
    ]
    of_one = turn("4", "Where is it?", start=4, agent_name="refunds")
    first, second = recorded([*several, of_one])[0].cases
    assert (first.agent, [item.agent for item in first.turns]) == ("orders", [None, "refunds", None])
    assert (second.agent, second.turns[0].agent) == ("refunds", None)
    assert record_case(several)[0].turns == first.turns
    assert [case.agent for case in recorded([of_one])[0].cases] == [None]
    captured = [{**item, "attempt": None} for item in several]
    assert [case.agent for case in recorded(captured)[0].cases] == ["orders", "refunds"]  # equal ids do not meet


def test_repetitions_become_one_case_and_what_changed_a_placeholder():
    turns = [
        turn(f"{n}", "Book it.", [call("book", key=f"k{n}", seat=n, sure=True, room="A", tags=["x"] * n)], start=n)
        for n in (1, 2, 3)
    ]
    suite, text = recorded(turns)
    (case,) = suite.cases
    assert case.turns[0].expect.tool_calls[0].arguments == {
        "key": {"$type": "string"},
        "room": "A",
        "seat": {"$type": "number"},
        "sure": True,
        "tags": {"$type": "array"},
    }
    assert "  # recorded 3 times\n  - id: book-it\n" in text


def test_most_repetitions_decide_which_calls_are_expected():
    turns = [turn(f"{n}", "Go.", [call("a")] if n else [call("a"), call("b")], start=n) for n in range(3)]
    suite, text = recorded(turns)
    assert [made.name for made in suite.cases[0].turns[0].expect.tool_calls] == ["a"]
    assert "# turn 1: 2 of 3 repetitions made these calls" in text


def test_what_went_wrong_or_was_not_said_is_left_out():
    turns = [
        turn("1", "Fine."),
        turn("2", "Failed.", state="TASK_STATE_FAILED"),
        turn("3", "Broken.", findings=[finding("agent_error", "error")]),
        turn("4", " "),
        turn("5", "Unseen.", findings=[finding("no_capture", "warning")]),
    ]
    suite, text = recorded(turns)
    assert [case.id for case in suite.cases] == ["fine"]
    assert re.findall("# Left out, (.*)", text) == [
        "conversations with a message that a suite cannot send: empty, not kept, or for some waiting calls only: 1.",
        "conversations with unknown tool calls: 1.",
        "failed conversations: 2.",
    ]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("COMPLETED", "COMPLETED"), None),
        (("INPUT_REQUIRED", "INPUT_REQUIRED"), "input-required"),
        (("REJECTED",), "rejected"),
        (("AUTH_REQUIRED",), "auth-required"),
        (("COMPLETED", "INPUT_REQUIRED"), ["completed", "input-required"]),
        (("COMPLETED", None), None),
    ],
)
def test_another_end_than_completed_is_expected(states, expected):
    turns = [
        turn(str(number), "Pay", conversation=str(number), state=state and f"TASK_STATE_{state}")
        for number, state in enumerate(states)
    ]
    suite, _ = recorded(turns)
    (case,) = suite_dict(suite)["cases"]
    assert case["turns"][0]["expect"].get("state") == expected


def waits(tool: str, **arguments):
    return {"name": tool, "arguments": arguments, "id": tool}


@pytest.mark.parametrize(
    ("waiting", "expect", "evaluators"),
    [
        ([[waits("pay", sum=5)]], {"approval": {"tool": "pay", "arguments": {"sum": 5}}}, ["approval"]),
        (
            [[waits("pay", sum=5)], [waits("pay", sum=6)]],
            {"approval": {"tool": "pay", "arguments": {"sum": {"$type": "number"}}}},
            ["approval"],
        ),
        ([[{"name": "pay", "arguments": None, "id": ""}]], {"approval": {"tool": "pay"}}, ["approval"]),
        ([[waits("pay"), waits("ship")]], {"state": "input-required"}, []),
        ([[waits("pay")], [waits("ship")]], {"state": "input-required"}, []),
        ([None], {"state": "input-required"}, []),
    ],
)
def test_the_call_that_waits_is_expected_where_it_is_one(waiting, expect, evaluators):
    turns = [
        turn(str(number), "Pay", start=number, state="TASK_STATE_INPUT_REQUIRED", approvals=calls)
        for number, calls in enumerate(waiting)
    ]
    suite, text = recorded(turns)
    assert suite_dict(suite)["cases"][0]["turns"][0]["expect"] == {"tool_calls": [], **expect}
    assert [spec.name for spec in suite.evaluators] == ["tool_trajectory", "tool_error", *evaluators]
    assert ("# turn 1: more than one call waits" in text) is not (bool(evaluators) or waiting == [None])
    failing = [{**one, "tool_calls": [call("look", error="no")]} for one in turns]
    assert [spec.name for spec in recorded(failing)[0].cases[0].evaluators] == ["tool_trajectory", *evaluators]
    known = parse_suite("{suite: s, cases: [{id: a, turns: [{user: Hi}]}]}")
    assert [spec.name for spec in recorded(turns, known=known)[0].evaluators] == ["tool_trajectory", *evaluators]


def test_an_expected_call_of_the_known_suite_that_matches_stays():
    made = [call("book", day="2026-05-03", seat=1), call("pay", sum=5)]
    known = parse_suite(
        "{suite: s, evaluators: [tool_trajectory], cases: [{id: a, turns: [{user: Go., expect: {tool_calls: ["
        "{name: pay, arguments: {sum: 4}}, {name: book, arguments: {day: {$date: 2026-05-03}, seat: {$any: true}}},"
        "{name: book, arguments: {day: {$same: tomorrow}}}]}}]}]}"
    )
    (of_case,) = recorded([turn("1", "Go.", made, case="a")], known=known)[0].cases
    wanted = known.cases[0].turns[0].expect.tool_calls
    assert of_case.turns[0].expect.tool_calls == (wanted[1], ExpectedCall("pay", {"sum": 5}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pay": True, "ship": True}, {"approve": True}),
        ({"ship": True}, {"approve": "ship"}),
        ({"pay": {"kind": "tool-denied"}, "ship": True}, None),
        ({"pay": False}, None),
    ],
)
def test_an_answer_for_one_of_several_calls_is_recorded_for_its_tool_or_not_at_all(given, said):
    turns = [
        turn("1", "Go.", conversation="c", approvals=[waits("pay"), waits("ship")]),
        turn("2", "approve", conversation="c", start=1, user_parts=[{"data": {"approvals": given}}]),
    ]
    suite, _ = recorded(turns)
    assert [case.turns[1].user.content for case in suite.cases] == ([said] if said else [])


def test_a_tool_that_failed_is_no_failure_of_the_recording():
    failing = [call("pay", error="no money"), call("pay", error="no money"), call("tell")]
    suite, text = recorded([turn("1", "Pay."), turn("2", "Pay more.", failing)])
    evaluators = [[evaluator.metric for evaluator in suite.build_evaluators(case=case)] for case in suite.cases]
    assert evaluators == [["tool_trajectory", "tool_error"], ["tool_trajectory"]]
    assert "  # without tool_error, as these tools failed: pay\n  - id: pay-more\n" in text
    alone, _ = recorded([turn("2", "Pay more.", failing)])
    assert alone.metrics == ("tool_trajectory",)


def test_unknown_arguments_may_be_any():
    made = turn("1", "Go.", [call("a")])
    made["tool_calls"][0]["arguments"] = None
    assert recorded([made])[0].cases[0].turns[0].expect.tool_calls == (ExpectedCall("a", None),)
    both = [made, turn("2", "Go.", [call("a", x=1)])]
    assert recorded(both)[0].cases[0].turns[0].expect.tool_calls == (ExpectedCall("a", {"x": 1}),)


@pytest.mark.parametrize(
    ("value", "said", "volatile"),
    [
        (UUID, "", True),
        (UUID, f"Show {UUID.upper()}, please.", False),
        (f"https://shop.example/r/{UUID}?x=1", "", True),
        ("2026-11-21T09:00:03.123456Z", "", True),
        ("2026-11-21 09:00:03+01:00", "", True),
        ("2026-11-22", "", True),
        ("2026-12-24", "", False),
        ("2026-12-24T18:00:00Z", "", False),
        ("2026-11-22", "for 2026-11-22", False),
        ("call_8f3kd92jd82kd9s02k1x", "", True),
        ("4f1d2c3b4a5968778695a4b3c2d1e0f9", "", True),
        ("TRK-77120", "", False),
        ("ORD-1001", "", False),
        ("internationalisation", "", False),
        ("1234567890123456", "", False),
        ("5 Quay Street, Bristol", "", False),
        ("", "", False),
        (1795251603, "", True),
        (1795251603123, "", True),
        (1795251603123456.0, "", True),
        (1001, "", False),
        (True, "", False),
        (None, "", False),
    ],
)
def test_what_looks_generated_when_seen_once(value, said, volatile):
    found = expected(value, said=said)
    assert isinstance(found, dict) == volatile
    assert ArgumentMatcher()({"x": found}, {"x": value})


def test_what_is_around_something_generated_stays():
    pattern = expected(f"https://shop.example/r/{UUID}?x=1")
    matcher = ArgumentMatcher()
    assert matcher(
        {"x": pattern},
        {"x": f"https://shop.example/r/{UUID[::-1].replace('-', '')[:8]}-0000-0000-0000-000000000000?x=1"},
    )
    assert not matcher({"x": pattern}, {"x": f"https://shop_example/r/{UUID}?x=1"})
    assert not matcher({"x": pattern}, {"x": f"https://shop.example/r/{UUID}?x=2"})


@pytest.mark.parametrize(
    ("seen", "placeholder"),
    [
        ([UUID, UUID.replace("0", "1")], "$regex"),
        (["2026-11-21", "2026-11-23"], "$regex"),
        (["a", "b"], {"$type": "string"}),
        ([1, 2.5], {"$type": "number"}),
        ([True, False], {"$type": "boolean"}),
        ([1, "1"], {"$any": True}),
        ([None, 1], {"$any": True}),
        ([{"a": 1}, {"b": 1}], {"$type": "object"}),
        ([[1], []], {"$type": "array"}),
        ([{"a": [1, 2]}, {"a": [1, 3]}], {"a": [1, {"$type": "number"}]}),
        ([UUID, UUID], UUID),
        ([1, 1.0], 1),
    ],
)
def test_what_changed_between_repetitions(seen, placeholder):
    found = expected(*seen)
    assert placeholder in found if placeholder == "$regex" else found == placeholder


def test_data_that_looks_like_a_placeholder_is_literal():
    assert expected({"x": {"$any": True}}) == {"x": {"$literal": {"$any": True}}}
    suite, _ = recorded([turn("1", "Go.", [call("f", **{"$regex": "["})])])
    assert suite.cases[0].turns[0].expect.tool_calls[0].arguments == {"$literal": {"$regex": "["}}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-2, 2)
    | st.sampled_from(["a", UUID, "2026-11-21", "x y"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "$any", "$regex", "b"]), inner, max_size=3)
    ),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["x", "y", "$type"]), JSON, max_size=3)


@given(st.lists(ARGUMENTS, min_size=1, max_size=4))
def test_every_recorded_call_is_as_expected(seen):
    turns = [turn(f"{n}", "Go.", [call("f")], start=n) for n in range(len(seen))]
    for made, arguments in zip(turns, seen, strict=True):
        made["tool_calls"][0]["arguments"] = arguments
    suite, _ = recorded(turns)
    (wanted,) = suite.cases[0].turns[0].expect.tool_calls
    for arguments in seen:
        assert ArgumentMatcher()(wanted.arguments, arguments), (wanted.arguments, arguments)
