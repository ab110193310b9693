"""Scenarios, `{schema_version, scenarios: [...]}`: each is a case with a simulated user.

The expected calls of its `tool_calls` assertion apply to the whole conversation. Modes: `strict` and `within` have the
same name here, `unordered` is `any_order` with a score of 1, `contains` is `superset`; arguments `exact`, `partial`
(`subset`) and `ignore`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...model import ExpectedCall
from ...suite import Case, EvaluatorSpec, Expectation, Simulation
from ...suite.case_ids import printable_id
from ...suite.importing import Notes, expected_call, unique_ids
from ...suite.node import Node

_MODES = {"strict": "strict", "unordered": "any_order", "contains": "superset", "within": "within"}
_ARGUMENTS = ("exact", "ignore", "partial")
_KNOWN = {
    *("scenario_id", "goal", "agent_context", "user_profile", "knowledge", "assertions"),
    *("user_id", "origin", "user_attributes"),
}
"""The last three serve neither simulation nor evaluation, in ArkSim either."""


@dataclass(frozen=True, slots=True)
class Scenarios:
    """The cases of a scenario file, and its scenarios as they stand in it, by the id of their case."""

    cases: tuple[Case, ...] = ()
    originals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    schema_version: str = "v1"

    def scenario_id(self, case_id: str) -> str:
        """The id that the scenario of a case has in the file; for another case its own."""
        original = self.originals.get(case_id)
        return case_id if original is None else str(original["scenario_id"])

    def by_scenario_id(self, cases: Iterable[Case]) -> dict[str, Case]:
        """`cases` by the ids of their scenarios; of equal ids the first."""
        found: dict[str, Case] = {}
        for case in cases:
            found.setdefault(self.scenario_id(case.id), case)
        return found


def read_scenarios(node: Node, notes: Notes, simulation: Mapping[str, Any]) -> Scenarios:
    """The scenarios of a document. `simulation` has further options of the `simulate` blocks. Raises SuiteError."""
    items = node.need("scenarios").items()
    cases = unique_ids(_case(item, notes, simulation) for item in items)
    originals = {case.id: item.object() for case, item in zip(cases, items, strict=True)}
    return Scenarios(cases, originals, node.text_at("schema_version") or "v1")


def _case(node: Node, notes: Notes, simulation: Mapping[str, Any]) -> Case:
    notes.unknown_keys(node, _KNOWN, "a scenario")
    simulate = Simulation(
        goal=node.need("goal").text(),
        profile=node.text_at("user_profile"),
        knowledge=tuple(text for item in node.items_at("knowledge") if (text := _content(item))),
        context=node.text_at("agent_context"),
        **simulation,
    )
    case = Case(id=printable_id(node.need("scenario_id").text()), simulate=simulate)
    for assertion in node.items_at("assertions"):
        kind = assertion.need("type").text()
        expected = assertion.items_at("expected")
        if kind != "tool_calls":
            notes.add(f"assertions of type {kind} are unknown and were not imported")
        elif expected and case.expect.tool_calls is None:  # arksim evaluates the first one that is not empty
            notes.unknown_keys(assertion, ("type", "expected", "match_mode"), "an assertion")
            for item in expected:
                notes.unknown_keys(item, ("name", "arguments", "arg_match_mode"), "an expected call")
                if item.get("arg_match_mode") is None and item.object().get("arguments"):
                    notes.add("arguments of expected calls without arg_match_mode: ArkSim ignores them, too")
            case = _with_expected_calls(case, assertion.get("match_mode"), expected)
    return case


def _content(node: Node) -> str | None:
    return node.text_at("content") if isinstance(node.value, dict) else None if node.blank else node.text()


def _with_expected_calls(case: Case, mode: Node | None, expected: list[Node]) -> Case:
    """`case` with the expected calls; its `evaluators` is the one that compares them."""
    calls = []
    matchers: dict[str, str] = {}
    for item in expected:
        call = expected_call(item, "arguments")
        how_node = item.get("arg_match_mode")
        how = "ignore" if how_node is None else how_node.choice(_ARGUMENTS)
        if how == "ignore":
            calls.append(ExpectedCall(call.name, None))
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
    return replace(case, expect=Expectation(tool_calls=tuple(calls)), evaluators=(trajectory,))
