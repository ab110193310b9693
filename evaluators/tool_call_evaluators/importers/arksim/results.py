"""The results of a run in ArkSim's format: `evaluation.json` (schema v1.1) and the scenarios of each error.

As there, turns count from 0, scores are on their own scale, and -1 stands for a score that was not computed. Unique
errors are those of behaviour failures; all others are in the report.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...behavior_failures import FAILURE_METRICS, GOOD_PERFORMANCE, RANK, SEVERITY, worst_first
from ...grouping import grouped
from ...metrics.conversation_scores import EVALUATION_FAILED
from ...model import EvalResult, Status
from ...outcomes.conversations import ConversationTurn, RunConversation
from ...report.model import Report
from ...texts import printable, report_json
from .simulation import Scenarios

SCHEMA_VERSION, EVALUATOR_VERSION = "v1.1", "v1"
NOT_COMPUTED = -1.0
CALLS_FAILURE = "disobey user request"
"""The failure of a conversation without its expected calls."""
RUN_FAILED, AGENT_ERROR = "evaluation_run_failed", "agent_api_error"
"""Outcomes of a turn that are no labels: the judge failed; the agent failed."""

_OWN_FIELDS = ("goal_completion", "turn_success_ratio", "overall_agent_score")


@dataclass(frozen=True)
class ArksimResults:
    """The results in `report`. The ids are UUIDs; `generated_at` is an RFC 3339 time."""

    report: Report
    scenarios: Scenarios
    simulation_id: str
    evaluation_id: str
    generated_at: str

    def evaluation(self) -> str:
        """The text of `evaluation.json`."""
        content = {
            "schema_version": SCHEMA_VERSION,
            "generated_at": self.generated_at,
            "evaluator_version": EVALUATOR_VERSION,
            "evaluation_id": self.evaluation_id,
            "simulation_id": self.simulation_id,
            "conversations": [self._conversation(item) for item in self.report.conversations if item.executed],
            "unique_errors": self._errors,
            "error_scenario_mappings": self._mappings,
        }
        return report_json(content, 4) + "\n"

    def focus(self) -> dict[str, str]:
        """The texts of scenario files by name: one of each error, and one of all; empty without errors."""
        if not self._mappings:
            return {}
        files = {f"error_{item['error_index']}": item["scenario_ids"] for item in self._mappings}
        every = sorted({scenario_id for item in self._mappings for scenario_id in item["scenario_ids"]})
        head = {"schema_version": self.scenarios.schema_version}
        return {
            f"{name}.json": report_json({**head, "scenarios": [self._originals[one] for one in ids]}, 4) + "\n"
            for name, ids in {**files, "all_failures": every}.items()
        }

    @cached_property
    def _originals(self) -> dict[str, Mapping[str, Any]]:
        return {str(scenario["scenario_id"]): scenario for scenario in self.scenarios.originals.values()}

    @cached_property
    def _by_label(self) -> dict[str, RunConversation]:
        return {conversation.label: conversation for conversation in self.report.conversations if conversation.executed}

    @cached_property
    def _errors(self) -> list[dict[str, Any]]:
        """The unique errors, the worst and most frequent first."""
        errors = [
            self._error(error, CALLS_FAILURE if error["label"] == "tool_trajectory" else error["label"])
            for error in self.report.unique_errors
            if error["label"] in (*SEVERITY, "tool_trajectory")
        ]
        known = [error for error in errors if error["occurrences"]]
        return sorted(known, key=lambda error: (RANK[error["severity"]], -len(error["occurrences"])))

    def _error(self, error: Mapping[str, Any], label: str) -> dict[str, Any]:
        named = printable(f"{label}: {error['description']}")
        return {
            "unique_error_id": str(uuid.uuid5(uuid.NAMESPACE_OID, named)),
            "behavior_failure_category": label,
            "unique_error_description": error["description"],
            "severity": SEVERITY[label],
            "occurrences": list(self._places(error["occurrences"])),
        }

    def _places(self, occurrences: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """That of a conversation as a whole is in the turn that its expected calls count against, if they do."""
        for place in occurrences:
            found = self._by_label[place["conversation"]]
            index = place["turn"] - 1 if place["turn"] else _calls_failure(found)[0]
            if index is not None:
                yield {"conversation_id": conversation_id(found), "turn_id": index}

    @cached_property
    def _error_ids(self) -> dict[tuple[str, int], list[str]]:
        return grouped(
            ((place["conversation_id"], place["turn_id"]), error["unique_error_id"])
            for error in self._errors
            for place in error["occurrences"]
        )

    @cached_property
    def _mappings(self) -> list[dict[str, Any]]:
        scenario_of = {
            conversation_id(item): self.scenarios.scenario_id(item.case_id or "") for item in self._by_label.values()
        }
        mappings: list[dict[str, Any]] = []
        for error in self._errors:
            ids = {scenario_of[place["conversation_id"]] for place in error["occurrences"]} & self._originals.keys()
            if ids:
                mappings.append(
                    {
                        "error_index": len(mappings) + 1,
                        "unique_error_id": error["unique_error_id"],
                        "error_description": error["unique_error_description"],
                        "severity": error["severity"],
                        "scenario_ids": sorted(ids),
                    }
                )
        return mappings

    def _conversation(self, conversation: RunConversation) -> dict[str, Any]:
        results = {result.evaluator: result for result in conversation.results}
        turns = [self._turn(conversation, turn) for turn in conversation.turns if turn.turn is not None]
        scores = {name: result.score for name, result in results.items() if result.score is not None}
        goal, ratio, overall = (scores.get(name, NOT_COMPUTED) for name in _OWN_FIELDS)
        if any(turn["turn_behavior_failure"] == RUN_FAILED for turn in turns):
            ratio = overall = NOT_COMPUTED
        status = results["overall_agent_score"].label if overall != NOT_COMPUTED else None
        own = [result for result in conversation.results if result.evaluator not in _OWN_FIELDS]
        return {
            "conversation_id": conversation_id(conversation),
            "goal_completion_score": goal,
            "goal_completion_reason": results["goal_completion"].reason if "goal_completion" in results else "",
            "turn_success_ratio": ratio,
            "overall_agent_score": overall,
            "evaluation_status": status or EVALUATION_FAILED,
            "turn_scores": turns,
            "convo_scores": _scores(own, "conversation"),
            "convo_qual_scores": _labels(own, "conversation"),
        }

    def _turn(self, conversation: RunConversation, turn: ConversationTurn) -> dict[str, Any]:
        failures = [result for result in turn.results if result.evaluator in FAILURE_METRICS]
        others = [result for result in turn.results if result.evaluator != "agent_behavior_failure"]
        scores = _scores(others, "turn")
        label, reason = _failure(turn, failures, _calls_failure(conversation))
        return {
            "turn_id": turn.index,
            "scores": scores,
            "turn_score": sum(item["value"] for item in scores) / len(scores) if scores else NOT_COMPUTED,
            "turn_behavior_failure": label,
            "turn_behavior_failure_reason": reason,
            "qual_scores": _labels(others, "turn"),
            "unique_error_ids": self._error_ids.get((conversation_id(conversation), turn.index), []),
        }


def conversation_id(conversation: RunConversation) -> str:
    """Its id, else its name in the report: some agents assign none."""
    return conversation.conversation_id or conversation.label


def _calls_failure(conversation: RunConversation) -> tuple[int | None, str]:
    """The turn, from 0, that a conversation without its expected calls counts against, and why; None for no turn."""
    ratio = next((result for result in conversation.results if result.evaluator == "turn_success_ratio"), None)
    for failed in ratio.details.get("failed", ()) if ratio else ():
        if failed["metric"] == "tool_trajectory":
            return failed["turn"] - 1, failed["reason"]
    return None, ""


def _failure(turn: ConversationTurn, results: Iterable[EvalResult], calls: tuple[int | None, str]) -> tuple[str, str]:
    """The worst label of a turn with its reason, else an outcome that is no label."""
    if turn.failure is not None:
        return AGENT_ERROR, turn.failure
    labelled = {result.label: result.reason for result in results if result.label and result.measured}
    if calls[0] == turn.index:
        labelled.setdefault(CALLS_FAILURE, calls[1])
    if labelled:
        label = worst_first(labelled)[0]
        return label, labelled[label]
    errors = [result.reason for result in results if result.status is Status.ERRORED]
    return (RUN_FAILED, errors[0]) if errors else (GOOD_PERFORMANCE, "No behaviour failure was measured.")


def _scores(results: Iterable[EvalResult], scope: str) -> list[dict[str, Any]]:
    return [_entry(item, item.score, scope) for item in results if item.score is not None and item.label is None]


def _labels(results: Iterable[EvalResult], scope: str) -> list[dict[str, Any]]:
    return [_entry(item, item.label, scope) for item in results if item.label is not None and item.measured]


def _entry(result: EvalResult, value: float | str | None, scope: str) -> dict[str, Any]:
    metadata = result.details.get("metadata")  # of a custom metric
    return {
        "name": result.evaluator,
        "value": value,
        "reason": result.reason,
        "metadata": metadata if isinstance(metadata, Mapping) else None,
        "scope": scope,
    }
