"""tool_name_reliability and tool_description_reliability: the rules."""

from __future__ import annotations

import pytest
from tool_call_evaluators import EvalCase, Status, ToolDefinition
from tool_call_evaluators.judge import PreparedJudge
from tool_call_evaluators.judged.tool_wording import ToolDescriptionReliability, ToolNameReliability


@pytest.mark.statement(202, 203, 204)
@pytest.mark.parametrize(
    ("name", "failed"),
    [
        ("get_order", set()),
        ("get2_orders_v2", set()),
        ("get", set()),
        ("getOrder", {"snakecase_format"}),
        ("get-order", {"snakecase_format"}),
        ("get__order", {"snakecase_format"}),
        ("_get", {"snakecase_format"}),
        ("get_", {"snakecase_format"}),
        ("2get", {"snakecase_format"}),
        ("get_order\n", {"snakecase_format"}),
        ("a_b_c_d_e_f_g", set()),
        ("a_b_c_d_e_f_g_h", {"conciseness"}),
        ("get_order_via_api", {"intent_over_implementation"}),
        ("Get_Order_WITH_LLM_now", {"snakecase_format", "intent_over_implementation"}),
        ("via_api", set()),
    ],
)
def test_names(name, failed):
    assert {check for check, ok in ToolNameReliability().rules(ToolDefinition(name)).items() if not ok} == failed


def test_the_list_of_implementation_words_is_an_option():
    tools = [{"name": "get_order_from_sap"}]
    assert ToolNameReliability().evaluate(EvalCase(tools=tools)).score == 1.0
    strict = ToolNameReliability(implementation_words=["_from_sap"])
    assert strict.evaluate(EvalCase(tools=tools)).score == pytest.approx(2 / 3)


def argument(**schema):
    return {"type": "string", "description": "What it is.", **schema}


def definition(required=(), **properties):
    return ToolDefinition("t", parameters={"properties": properties, "required": list(required)})


@pytest.mark.statement(209, 210, 211, 212)
@pytest.mark.parametrize(
    ("tool", "failed"),
    [
        (ToolDefinition("t"), set()),
        (definition(a=argument()), set()),
        (definition(a=argument(description="")), {"input_arguments_clarity"}),
        (definition(a=argument(description=" ")), {"input_arguments_clarity"}),
        (definition(a={"type": "string"}), {"input_arguments_clarity"}),
        (definition(a={"description": "x"}), {"input_arguments_types"}),
        (definition(a={"description": "x", "anyOf": [{"type": "string"}, {"type": "null"}]}), set()),
        (definition(a=True), {"input_arguments_clarity", "input_arguments_types"}),
        (definition("abcde", **{name: argument() for name in "abcde"}), set()),
        (definition("abcdef", **{name: argument() for name in "abcdef"}), {"max_num_input_arguments"}),
        (definition("a", **{name: argument() for name in "abcd"}), set()),
        (definition("", **{name: argument() for name in "abcd"}), {"max_optional_input_arguments"}),
    ],
)
def test_descriptions(tool, failed):
    assert {check for check, ok in ToolDescriptionReliability().rules(tool).items() if not ok} == failed


@pytest.mark.statement(214)
def test_the_limits_are_options():
    case = EvalCase(tools=[definition("", a=argument(), b=argument())])
    assert ToolDescriptionReliability().evaluate(case).score == 1.0
    strict = ToolDescriptionReliability(max_num_input_arguments=1, max_optional_input_arguments=1)
    result = strict.evaluate(case)
    assert (result.score, len(result.details["tools"][0]["checks"])) == (0.5, 4)


@pytest.mark.statement(206, 207, 259)
def test_the_score_is_over_all_tools():
    case = EvalCase(tools=[{"name": "get_order"}, {"name": "getOrderViaApi"}])
    result = ToolNameReliability().evaluate(case)
    assert result.score == pytest.approx(5 / 6)
    assert (result.threshold, result.status) == (0.8, Status.PASSED)
    assert result.details["tools"][1] == {
        "name": "getOrderViaApi",
        "checks": {"snakecase_format": False, "conciseness": True, "intent_over_implementation": True},
    }
    assert result.reason == "5 of 6 checks passed over 2 tools: getOrderViaApi fails snakecase_format."


# ── with a judge ────────────────────────────────────────────────────────────────────────────────────────────────


def said(evaluator, **verdicts):
    """An answer in which every judged check is passed, but for those given."""
    checks = dict.fromkeys(evaluator.judged_checks, True) | verdicts
    return {check: {"reason": "Because.", "verdict": verdict} for check, verdict in checks.items()}


@pytest.mark.statement(205)
async def test_a_judge_adds_its_checks_and_both_must_pass_what_both_check():
    judge = PreparedJudge(
        [
            said(ToolNameReliability, clarity=False),
            said(ToolNameReliability, intent_over_implementation=False),
            said(ToolNameReliability),
        ]
    )
    case = EvalCase(tools=[{"name": "get_order"}, {"name": "get_row"}, {"name": "get_via_api", "description": "Gets."}])
    result = await ToolNameReliability(judge=judge).evaluate(case)
    checks = [tool["checks"] for tool in result.details["tools"]]
    assert [[check for check, ok in found.items() if not ok] for found in checks] == [
        ["clarity"],
        ["intent_over_implementation"],
        ["intent_over_implementation"],
    ]
    assert {len(found) for found in checks} == {5}
    assert result.score == pytest.approx(12 / 15)
    assert result.reason.startswith("12 of 15 checks passed over 3 tools: get_order fails clarity;")
    assert result.details["judge"]["requests"] == 3
    assert '"description": "Gets."' in judge.questions[2].data["tool"]


@pytest.mark.statement(208, 213)
async def test_a_description_is_judged_by_nine_more_checks():
    judge = PreparedJudge([said(ToolDescriptionReliability, has_examples=False)])
    result = await ToolDescriptionReliability(judge=judge).evaluate(EvalCase(tools=[definition(a=argument())]))
    (tool,) = result.details["tools"]
    assert len(tool["checks"]) == 13
    assert [check for check, ok in tool["checks"].items() if not ok] == ["has_examples"]
    assert result.score == pytest.approx(12 / 13)
