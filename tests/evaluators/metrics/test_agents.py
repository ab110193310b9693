"""agents_asked, delegation, delegated_values, and `depth: all`: what is scored of the turns that a turn caused."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture import ToolCall
from tool_call_evaluators import EvalCase, OptionError, Status, parse_suite
from tool_call_evaluators.agent_tree import AgentTurn, AskedBy, EdgeEvidence, calls_of_all
from tool_call_evaluators.metrics.agents_asked import AgentsAsked
from tool_call_evaluators.metrics.delegation import DelegatedValues, Delegation
from tool_call_evaluators.visibility import visibility_of

SURE = AskedBy(EdgeEvidence.TRACE_CONTEXT, certain=True, reason="")
GUESS = AskedBy(EdgeEvidence.TRACE_CONTEXT, certain=False, reason="")
SEEN = visibility_of("TASK_STATE_COMPLETED", 1, (), "snapshot")


def agent(name: str, *children: AgentTurn, asked: AskedBy | None = SURE, at: float = 0.0, **fields: Any) -> AgentTurn:
    own = {"user_text": f"to {name}", "response_text": f"from {name}", "visibility": SEEN, "ended_at": at + 1}
    return AgentTurn(f"turn of {name}", name, at, asked=asked, children=children, **{**own, **fields})


def root(*children: AgentTurn, **fields: Any) -> AgentTurn:
    return agent("desk", *children, asked=None, **fields)


def asked(tree: AgentTurn, *expected: Any, **options: Any) -> Any:
    return AgentsAsked(**options).evaluate(EvalCase(tree=tree, expected_agents=expected))


TREE = root(agent("orders", agent("stock", at=2), at=1), agent("refunds", at=3))


AT_ONCE = root(
    agent("orders", agent("stock", at=2), at=1, ended_at=5),
    agent("refunds", at=2.5, ended_at=6),
    agent("mail", at=6),
)
IN_ORDER = {"in_order": True}


@pytest.mark.parametrize(
    ("tree", "options", "expected", "score"),
    [
        (TREE, {}, ["orders"], 1),
        (TREE, {}, ["stock"], 1),
        (TREE, {}, ["orders", "payroll"], 0.5),
        (TREE, {}, [{"name": "payroll", "at_most": 0}], 1),
        (TREE, {}, [{"name": "stock", "at_most": 0}], 0),
        (TREE, {}, [{"name": "orders", "at_least": 2}], 0),
        (TREE, {}, [{"name": "orders", "at_most": 1}], 1),
        (TREE, {}, [{"name": "orders", "given": "TO ORDERS"}], 1),
        (TREE, {}, [{"name": "orders", "given": ["to orders", "ORD-1"]}], 0),
        # the order is one expectation more
        (TREE, IN_ORDER, ["orders", "refunds"], 1),
        (TREE, IN_ORDER, ["refunds", "orders"], 2 / 3),
        (AT_ONCE, IN_ORDER, ["orders", "refunds"], 1),
        (AT_ONCE, IN_ORDER, ["refunds", "orders"], 1),  # they work at the same time
        (AT_ONCE, IN_ORDER, ["refunds", "orders", "stock"], 1),
        (AT_ONCE, IN_ORDER, ["stock", "orders"], 2 / 3),  # orders asked stock
        (AT_ONCE, IN_ORDER, ["mail", "refunds"], 2 / 3),
    ],
)
def test_agents_are_expected(tree: AgentTurn, options: dict[str, Any], expected: list[Any], score: float) -> None:
    assert asked(tree, *expected, **options).score == pytest.approx(score)


def test_the_reason_names_the_agents_and_the_failure_modes() -> None:
    result = asked(TREE, "payroll", {"name": "stock", "at_most": 0}, {"name": "refunds", "given": "ORD-1"})
    assert result.reason == (
        "0 of 3 expectations of agents met: no request to payroll was seen; "
        "stock was asked 1 time, at most 0 expected; refunds was not given ORD-1."
    )
    assert result.details["asked"] == {"payroll": 0, "stock": 1, "refunds": 1, "orders": 1}
    assert [mode[:6] for mode in result.details["mast"]] == ["FM-1.1", "FM-1.2", "FM-2.4"]


@pytest.mark.parametrize(
    "tree",
    [
        root(agent("orders", asked=GUESS)),
        root(agent("stock", agent("orders"), asked=GUESS)),
        root(agent("stock", status="open")),
        root(agent("stock", left_out=3)),
    ],
)
@pytest.mark.parametrize("expected", ["orders", {"name": "orders", "at_most": 0}])
def test_what_is_not_certain_neither_meets_nor_breaks_an_expectation(tree: AgentTurn, expected: Any) -> None:
    assert asked(tree, expected).status is Status.SKIPPED


NOT_PAYROLL = {"name": "payroll", "at_most": 0}
GUESSED = root(agent("payroll"), agent("orders", asked=GUESS))


@pytest.mark.parametrize(
    ("tree", "expected", "score"),
    [
        (GUESSED, [NOT_PAYROLL], 0),
        (GUESSED, [NOT_PAYROLL, "orders"], 0),  # what is not known is not met
        (GUESSED, ["payroll"], 1),
        (root(), [NOT_PAYROLL], None),
        (root(), ["orders"], 0),
        (None, ["orders"], None),
    ],
)
def test_a_certain_fault_counts_and_that_an_agent_is_never_asked_needs_requests_that_are_seen(
    tree: AgentTurn | None, expected: list[Any], score: float | None
) -> None:
    result = AgentsAsked().evaluate(EvalCase(tree=tree, expected_agents=expected))
    assert (result.score, result.status is Status.SKIPPED) == (score, score is None)


def delegation(tree: AgentTurn, **limits: Any) -> Any:
    return Delegation(**{"max_loops": None, "max_repeats": None, "max_failures": None, **limits}).evaluate(
        EvalCase(tree=tree)
    )


LOOP = root(agent("orders", agent("desk", at=2), at=1))
AGAIN = root(agent("orders", at=1), agent("orders", at=2, user_text=" To  ORDERS"))
RETRY = root(agent("orders", at=1, failure="task_failed"), agent("orders", at=2))


@pytest.mark.parametrize(
    ("tree", "limit", "kept", "reason"),
    [
        (TREE, {"max_depth": 2}, True, ""),
        (TREE, {"max_depth": 1}, False, "depth: 2, of at most 1, at stock"),
        (TREE, {"max_fan_out": 2}, True, ""),
        (TREE, {"max_fan_out": 1}, False, "fan-out: 2, of at most 1, by desk"),
        (TREE, {"max_loops": 0}, True, ""),
        (LOOP, {"max_loops": 0}, False, "loops: 1, of at most 0 (desk → orders → desk)"),
        (AGAIN, {"max_repeats": 0}, False, "(desk asked orders again:"),
        (RETRY, {"max_repeats": 0}, True, ""),
        (RETRY, {"max_failures": 0}, False, "(first orders, asked by desk: task_failed)"),
        (RETRY, {"max_failures": 1}, True, ""),
        (root(agent("orders"), agent("refunds", asked=GUESS)), {"max_fan_out": 1, "max_depth": 0}, False, ""),
        (root(agent("orders", asked=GUESS)), {"max_depth": 3}, None, "not known: "),
        (root(), {"max_depth": 3}, None, "no request to another agent was seen"),
    ],
)
def test_limits_of_delegation(tree: AgentTurn, limit: dict[str, Any], kept: bool | None, reason: str) -> None:
    result = delegation(tree, **limit)
    assert result.passed is kept
    assert reason in result.reason


def values(tree: AgentTurn, answer: str = "REF-7 is done", **patterns: Any) -> Any:
    case = EvalCase(tree=tree, user_text="Refund ORD-1 and ord-2", response_text=answer)
    return DelegatedValues(**patterns).evaluate(case)


def test_values_are_passed_on_and_used() -> None:
    tree = root(agent("orders", user_text="refund ord-1", response_text="REF-7, REF-8"))
    assert values(tree, passed_on=["ORD-[0-9]"]).score == 1
    result = values(tree, passed_on=["(?i)ORD-[0-9]"], used=["REF-[0-9]"])
    assert result.score == 0.5
    assert result.reason == (
        "2 of 4 values kept: ord-2 was passed on to no agent; REF-8 of orders is not in the answer."
    )
    assert [mode[:6] for mode in result.details["mast"]] == ["FM-2.4", "FM-2.5"]
    failed = root(agent("orders", response_text="REF-9", failure="task_failed"))
    assert values(failed, used=["REF-[0-9]"]).status is Status.SKIPPED
    assert values(root(agent("orders", asked=GUESS)), used=["x"]).status is Status.SKIPPED
    unsure = root(agent("orders", response_text="REF-9"), agent("stock", asked=GUESS))
    assert values(unsure, passed_on=["ORD-[0-9]"]).status is Status.SKIPPED, "stock may have been given it"
    assert values(unsure, used=["REF-[0-9]"]).score == 0


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (Delegation, dict.fromkeys(("max_loops", "max_repeats", "max_failures"))),
        (Delegation, {"max_depth": -1}),
        (Delegation, {"max_fan_out": -2}),
        (DelegatedValues, {}),
        (DelegatedValues, {"used": ["("]}),
        (DelegatedValues, {"passed_on": [""], "used": ["*"]}),
    ],
)
def test_limits_and_patterns_that_are_none(kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        kind(**options)


def called(name: str, at: float) -> ToolCall:
    return ToolCall(name, {}, first_seen_at=at)


def test_with_depth_all_the_calls_of_asked_agents_count_in_order() -> None:
    tree = root(agent("orders", agent("stock", tool_calls=(called("count", 3),)), tool_calls=(called("find", 2),)))
    calls, unseen = calls_of_all([called("ask", 1), called("note", 4)], None, tree)
    assert [call.name for call in calls] == ["ask", "find", "count", "note"]
    assert unseen is None
    suite = parse_suite("{suite: s, depth: all, cases: [{id: a, turns: [{user: x}]}]}")
    (case,) = (case.completed(suite) for case in suite.cases)
    assert [call.name for call in case.eval_case(0, tool_calls=[called("ask", 1)], tree=tree).tool_calls] == [
        "ask",
        "find",
        "count",
    ]
    assert case.eval_case(0, tree=None).calls_unseen == "the turns that this one caused are not known"


@pytest.mark.parametrize(
    "tree",
    [
        root(agent("orders", asked=GUESS)),
        root(agent("orders", visibility=visibility_of("TASK_STATE_COMPLETED", 0, (), ""))),
        root(agent("orders", status="open")),
    ],
)
def test_with_depth_all_unknown_calls_of_one_are_unknown_calls_of_all(tree: AgentTurn) -> None:
    assert calls_of_all([], None, tree)[1]


def whole(*trees: AgentTurn | None, **fields: Any) -> EvalCase:
    """A conversation whose turns have these trees."""
    turns = [EvalCase(tree=tree, user_text=f"say {at}", response_text=f"said {at}") for at, tree in enumerate(trees)]
    return EvalCase(turns=turns, response_text=turns[-1].response_text, **fields)


EARLY = root(agent("orders", agent("stock", at=2), at=1))
LATE = root(agent("refunds", at=5, user_text="say 0"), at=4)


def test_a_conversation_has_the_trees_of_all_its_turns() -> None:
    expected = ["stock", "refunds", {"name": "orders", "at_most": 1}]
    options = {"scope": "conversation"}
    suite = parse_suite(
        f"{{suite: s, evaluators: [{{agents_asked: {options}}}], cases: [{{id: a, turns: [{{user: x}}, {{user: y}}], "
        f"expect: {{agents: {expected}}}}}]}}"
    )
    (evaluator,) = suite.build_evaluators("conversation")
    turns = [suite.cases[0].eval_case(at, tree=tree) for at, tree in enumerate((EARLY, LATE))]
    result: Any = evaluator.evaluate(suite.cases[0].conversation_case(turns))
    assert result.score == 1, result.reason
    assert result.details["asked"] == {"stock": 1, "refunds": 1, "orders": 1}


@pytest.mark.parametrize(
    ("trees", "options", "expected", "reason"),
    [
        # the order is that of time
        ([LATE, EARLY], {"in_order": True}, ["stock", "refunds"], "3 of 3 expectations of agents met."),
        ([EARLY, None], {}, ["orders"], "not given: trees"),
        ([EARLY, root(agent("x", asked=GUESS))], {}, ["payroll"], ""),
    ],
)
def test_agents_asked_in_a_conversation(
    trees: list[AgentTurn | None], options: dict[str, Any], expected: list[str], reason: str
) -> None:
    result = AgentsAsked(**options).evaluate(whole(*trees, expected_agents=expected))
    assert reason in result.reason
    assert (result.status is Status.SKIPPED) is (not options)


def test_limits_of_delegation_hold_for_a_conversation() -> None:
    deep, wide = root(agent("orders", agent("stock"))), root(agent("orders"), agent("orders", failure="task_failed"))
    limits = {"max_depth": 2, "max_fan_out": 2, "max_failures": 1, "max_repeats": 1}
    assert Delegation(**limits).evaluate(whole(deep, root(), wide)).score == 1
    tighter = Delegation(**{name: limit - 1 for name, limit in limits.items()}).evaluate(whole(deep, wide, wide))
    assert [tighter.details[name]["actual"] for name in limits] == [2, 2, 2, 2]
    assert Delegation().evaluate(whole(root(), root())).reason == "no request to another agent was seen"


def test_values_may_be_passed_on_in_a_later_turn_of_a_conversation() -> None:
    later = root(agent("orders", user_text="about 0", response_text="REF-7"))
    evaluator = DelegatedValues(passed_on=["[0-9]"], used=["REF-[0-9]"])
    result = evaluator.evaluate(whole(root(), later))
    assert result.reason == ("1 of 3 values kept: 1 was passed on to no agent; REF-7 of orders is not in the answer.")
    missing = EvalCase(turns=[EvalCase(tree=later, user_text="say 0")])
    assert evaluator.evaluate(missing).reason == "not given: response_text"


HIDDEN = "[not kept: 9 characters]"


def test_what_is_stored_without_content_is_not_known() -> None:
    hidden = [agent("orders", at=at, user_text=HIDDEN, response_text=HIDDEN, has_content=False) for at in (1, 3)]
    tree = root(*hidden)
    results = [
        asked(tree, {"name": "orders", "given": "ORD-1"}),
        asked(tree, {"name": "orders", "given": "not kept"}),
        Delegation().evaluate(EvalCase(tree=tree)),
        DelegatedValues(passed_on=["ORD-1"], used=["[0-9]"]).evaluate(
            EvalCase(tree=tree, user_text="ORD-1", response_text="done")
        ),
    ]
    assert [result.status for result in results] == [Status.SKIPPED] * 4
    assert all("stored without content" in result.reason for result in results)
    assert asked(tree, {"name": "orders", "at_least": 2}).passed
    assert asked(tree, {"name": "orders", "at_most": 1}).score == 0


def test_calls_that_are_stored_without_content_have_unknown_arguments() -> None:
    call = ToolCall("refund", {"order": "string"}, result=HIDDEN)
    stored = {
        **dict.fromkeys(("run", "conversation_id", "task_id", "response_text"), ""),
        "turn_id": "t", "agent": "http://orders", "case_id": None, "state": "TASK_STATE_COMPLETED", "status": "done",
        "user_text": HIDDEN, "started_at": "2026-01-01T00:00:00Z", "ended_at": None, "findings": [],
        "tool_calls": [call.to_dict()], "calls": "seen", "calls_evidence": "snapshot",
    }  # fmt: skip
    (kept,) = AgentTurn.of(stored).tool_calls
    (unknown,) = AgentTurn.of(stored, has_content=False).tool_calls
    assert (kept.arguments, unknown.arguments, unknown.result) == ({"order": "string"}, None, None)
