"""`skills`: which skills are loaded, where frameworks show it; and what is not known of it."""

from __future__ import annotations

import pytest
from support.turn_samples import turn
from tool_call_evaluators import EvalCase, evaluate_sync, get_evaluator, parse_suite
from tool_call_evaluators.metrics.skills import skills_of
from tool_call_evaluators.model import ToolCall
from tool_call_evaluators.outcomes.conversations import follow

SKILLS = get_evaluator("skills")
LOADS = {"name": "load_skill", "arguments": {"skill_name": "refunds"}, "result": "..."}


def score(**fields):
    (result,) = evaluate_sync(EvalCase(**fields), [SKILLS])
    return result


@pytest.mark.parametrize(
    ("tool", "arguments", "skill"),
    [
        ("load_skill", {"name": "refunds"}, "refunds"),  # google-adk
        ("load_skill", {"skill_name": " refunds "}, "refunds"),
        ("load_skill_resource", {"skill_name": "refunds", "path": "references/a.md"}, "refunds"),
        ("run_skill_script", {"skillName": "refunds", "name": "pay.py"}, "refunds"),  # Microsoft Agent Framework
        ("Skill", {"skill": "refunds", "args": "x"}, "refunds"),  # Claude
        ("skill", {"name": "refunds"}, "refunds"),  # OpenCode
        ("skills", {"skill_name": "refunds"}, "refunds"),  # Strands
        ("activate_skill", {"name": "refunds"}, "refunds"),  # Gemini CLI
        ("mcp__files__load_skill", {"id": "refunds"}, "refunds"),
        ("read_file", {"file_path": "/mnt/skills/refunds/SKILL.md"}, "refunds"),  # deep agents
        ("shell", {"command": ["sed", "-n", "1,80p", "skills/refunds/SKILL.md"]}, "refunds"),
        ("Read", {"path": "C:\\skills\\refunds\\SKILL.md"}, "refunds"),
        ("load_skill", {}, ""),
        ("load_skill", None, ""),
        ("skills", {"name": "Python"}, None),
        ("view", {"path": "/skills/refunds/SKILL.md", "note": "x" * 20_000}, "refunds"),
        ("write_file", {"file_path": "/skills/refunds/SKILL.md"}, ""),
        ("read_file", {"file_path": "/skills/refunds/OTHER.md"}, None),
        ("read_file", {"file_path": "a" * 10_000 + "/refunds/SKILL.md"}, "refunds"),
        ("lookup_order", {"skill_name": "refunds"}, None),
    ],
)
def test_the_calls_that_load_a_skill(tool, arguments, skill):
    assert skills_of(ToolCall(tool, arguments)) == ([] if skill is None else [skill])


def test_a_call_that_may_load_another_skill():
    read = [
        ToolCall("bash", {"command": f"cat {files}"}) for files in ("a/SKILL.md b/SKILL.md", "a*/SKILL.md SKILL.md")
    ]
    assert list(map(skills_of, read)) == [["a", "b"], ["", ""]]
    assert score(tool_calls=[read[1]], forbidden_skills=["a"]).label == "calls_unseen"


@pytest.mark.parametrize(
    ("loaded", "expected", "forbidden", "reached", "reason"),
    [
        (["refunds"], ["refunds"], None, 1.0, "1 of 1 skill as expected."),
        (["refunds", "refunds"], ["refunds"], ["pay"], 1.0, "2 of 2 skills as expected."),
        (["pay"], ["refunds"], None, 0.0, "0 of 2 skills as expected: pay was loaded, and is not expected; "),
        (["refunds", "pay"], ["refunds"], None, 0.5, "1 of 2 skills as expected: pay was loaded, and is not expected."),
        (["refunds"], [], None, 0.0, "0 of 1 skill as expected: refunds was loaded, and is not expected."),
        (["pay"], None, ["refunds"], 1.0, "1 of 1 skill as expected."),
        (["refunds"], None, ["refunds"], 0.0, "0 of 1 skill as expected: refunds is forbidden, and was loaded."),
        (["refunds"], ["refunds", "pay"], ["mail"], 2 / 3, "2 of 3 skills as expected: pay was not loaded."),
    ],
)
def test_the_loaded_skills_are_the_expected_ones_and_no_others(loaded, expected, forbidden, reached, reason):
    calls = [{"name": "load_skill", "arguments": {"name": name}, "result": "..."} for name in loaded]
    result = score(tool_calls=calls, expected_skills=expected, forbidden_skills=forbidden)
    assert (result.score, result.passed) == (pytest.approx(reached), reached == 1.0)
    assert result.reason.startswith(reason)


def test_a_call_that_failed_loaded_nothing():
    missing = {**LOADS, "result": '{"error": "Skill not found"}'}
    found = [score(tool_calls=[missing], expected_skills=expected).passed for expected in ([], ["refunds"])]
    assert found == [True, False]


def test_what_is_not_known_is_skipped_unless_something_wrong_was_seen():
    bare, unseen = {"name": "load_skill", "arguments": None}, {"calls_unseen": "no source", "tool_calls": [LOADS]}
    results = [score(tool_calls=[bare], expected_skills=[]), score(**unseen, expected_skills=["refunds"])]
    assert [result.label for result in results] == ["calls_unseen"] * 2
    assert score(**unseen, forbidden_skills=["refunds"]).passed is False
    assert score(tool_calls=[LOADS]).reason == "not given: expected_skills (in a suite: expect.skills)"


@pytest.mark.parametrize(
    "shown",
    [
        {},
        {"tools": [{"name": "load_skill"}]},
        {"history": [EvalCase(tool_calls=[LOADS])]},
        {"tool_calls": [{"name": "read_file", "arguments": {"path": "a"}, "result": "b"}]},
    ],
)
@pytest.mark.parametrize(("expected", "passed"), [([], True), (["refunds"], False)])
def test_none_is_known_only_if_something_shows_that_one_would_be_seen(expected, passed, shown):
    result = score(**{"tool_calls": [{"name": "lookup_order"}], **shown}, expected_skills=expected)
    assert (result.passed, result.label) == ((passed, None) if shown else (None, "unproven"))


SUITE = """
suite: x
evaluators: [skills]
cases:
  - {id: none, turns: [{user: hi, expect: {skills: []}}]}
  - {id: refund, turns: [{user: refund, expect: {skills: [refunds]}}]}
  - {id: other, turns: [{user: other}]}
"""


def test_another_case_shows_that_a_skill_would_be_seen():
    suite, turns = parse_suite(SUITE), []
    for case in suite.cases:
        call = ToolCall(**LOADS) if case.id == "other" else ToolCall("lookup_order", {}, result="1")
        (result,) = evaluate_sync(case.eval_case(0, tool_calls=[call]), [SKILLS])
        turns.append(turn(case.id, case.input, [call.to_dict()], [result.to_dict()], case=case.id))
    none, refund, _ = (item.turns[0].results[0] for item in follow(turns, suite))
    assert [none.status, refund.status] == ["passed", "failed"]
    assert refund.reason.endswith("refunds was not loaded: a call of load_skill was seen in other.")
