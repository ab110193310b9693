"""arksim scenarios, as of arksim 0.3.8: `{schema_version, scenarios: [...]}`.

A scenario steers a simulated user; here, its goal is the user message of a single turn. The expected calls of its
`tool_calls` assertion apply to the whole conversation. Modes: `strict` and `within` have the same name here,
`unordered` is `any_order` with a score of 1, `contains` is `superset`; arguments `exact`, `partial` (`subset`) and
`ignore`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from a2a_tool_capture.models import ToolCall

from ..suite import Case, CaseTurn, EvaluatorSpec, Expectation, Suite
from ..suite.case_ids import printable_id
from ..suite.node import Node
from .common import Notes, expected_call, unique_ids

_MODES = {"strict": "strict", "unordered": "any_order", "contains": "superset", "within": "within"}
_ARGUMENTS = ("exact", "ignore", "partial")
_TOOL_ERROR = EvaluatorSpec("tool_error")


def read(node: Node, path: Path, notes: Notes) -> Suite:
    """The suite in scenarios. Raises SuiteError."""
    cases = [_case(item, notes) for item in node.need("scenarios").items()]
    return Suite(name=path.stem, evaluators=(_TOOL_ERROR,), cases=unique_ids(cases))


def _case(node: Node, notes: Notes) -> Case:
    goal = node.need("goal").text()
    knowledge = [text for item in node.items_at("knowledge") if (text := _content(item))]
    for name in ("agent_context", "user_profile"):
        if node.text_at(name):
            notes.add(f"{name} steers arksim's simulated user and was not imported; the goal is sent instead")
    case = Case(
        id=printable_id(node.need("scenario_id").text()),
        turns=(CaseTurn(goal),),
        user_goal=goal,
        knowledge="\n\n".join(knowledge) or None,
    )
    for assertion in node.items_at("assertions"):
        kind = assertion.need("type").text()
        expected = assertion.items_at("expected")
        if kind != "tool_calls":
            notes.add(f"assertions of type {kind} are unknown and were not imported")
        elif expected and case.expect.tool_calls is None:  # arksim evaluates the first one that is not empty
            case = _with_expected_calls(case, assertion.get("match_mode"), expected)
    return case


def _content(node: Node) -> str | None:
    return node.text_at("content") if isinstance(node.value, dict) else None if node.blank else node.text()


def _with_expected_calls(case: Case, mode: Node | None, expected: list[Node]) -> Case:
    calls = []
    matchers: dict[str, str] = {}
    for item in expected:
        call = expected_call(item, "arguments")
        how_node = item.get("arg_match_mode")
        how = "ignore" if how_node is None else how_node.choice(_ARGUMENTS)
        if how == "ignore":
            calls.append(ToolCall(call.name, None))
            continue
        matcher = {"exact": "exact", "partial": "subset"}[how]
        if matchers.setdefault(call.name, matcher) != matcher:
            item.fail(f"{call.name} is expected with arg_match_mode exact and partial; a suite has one for each tool")
        calls.append(call)
    options: dict[str, Any] = {"mode": "any_order" if mode is None else _MODES[mode.choice(tuple(_MODES))]}
    partial = {name: matcher for name, matcher in matchers.items() if matcher == "subset"}
    if partial:
        options["matcher"] = {"per_tool": partial}
    trajectory = EvaluatorSpec("tool_trajectory", options, "conversation")
    return replace(case, expect=Expectation(tool_calls=tuple(calls)), evaluators=(_TOOL_ERROR, trajectory))
