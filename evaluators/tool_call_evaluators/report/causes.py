"""Groups what went wrong in a run by its cause, so that a report states each cause once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..behavior_failures import SEVERITY, normalised
from ..grouping import grouped
from ..matching.explain import CallChange
from ..outcomes.conversations import ConversationTurn, RunConversation
from ..texts import counted, listed
from .model import GATE_NOT_MET, TOLERATED_BY_SUITE, ReasonJson, Report

NO_METRICS = ("missing_turn", "failed_turn")
"""Labels of failures that no evaluator reports."""
IN_ERRORS = ("failed", "errored", *NO_METRICS)
"""The codes of reasons whose failures are among the report's distinct errors; pages show them at the turn."""
MAX_CASES = 5
"""Maximum number of cases that a sentence names."""
MAX_DIFFERENCES = 4
"""Maximum number of differences that a sentence lists."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of failures: `labels` are the metrics (or labels of judges) that report it.

    `places` has the conversation's label and the turn from 1 (0: the whole conversation) of each occurrence; it is
    empty for a cause that concerns the run. `note` is set if the verdict tolerates all occurrences (`Report.note`).
    """

    text: str
    labels: tuple[str, ...]
    places: tuple[tuple[str, int], ...]
    cases: tuple[str, ...]
    note: str = ""
    where: str = ""
    """The name of the first place in reports."""

    @property
    def counts(self) -> bool:
        """Whether it is a reason that the run failed, or why a gate is not met."""
        return self.note == "" or self.of_gate

    @property
    def of_gate(self) -> bool:
        """Whether the verdict has no reason of its own for it: it is below a threshold, and a gate is not met."""
        return self.note == GATE_NOT_MET

    @property
    def severity(self) -> str | None:
        """That of a behaviour failure; None for any other."""
        return next((SEVERITY[label] for label in self.labels if label in SEVERITY), None)

    @property
    def sentence(self) -> str:
        """The cause, what reports it, how often it happened and in which cases."""
        if not self.places:
            return self.text
        facts = [", ".join(self.labels)] if self.labels else []
        facts += [self.note] if self.note else []
        if len(self.places) == 1:
            return f"{self.where}: {self.text}" + (f" ({'; '.join(facts)})" if facts else "")
        named = listed(self.cases, MAX_CASES)
        return f"{self.text} ({'; '.join([*facts, counted(len(self.places), 'time')])}: {named})"

    def to_dict(self) -> dict[str, Any]:
        """JSON form, with the occurrences as in `unique_errors`."""
        return {
            "text": self.text,
            "labels": list(self.labels),
            "note": self.note,
            "cases": list(self.cases),
            "occurrences": [{"conversation": conversation, "turn": turn} for conversation, turn in self.places],
        }


def causes(report: Report) -> list[Cause]:
    """What concerns the run, then the failures of cases: first why a gate is not met, last what the verdict tolerates.

    Failures of metrics that compare expected calls have the cause that the calls differ in the same way. Any others
    have the same cause if their reasons are equivalent (`behavior_failures.normalised`).
    """
    rest = [reason for reason in report.reasons if reason["code"] not in IN_ERRORS]
    rest.sort(key=lambda reason: reason["code"].startswith("below_"))  # gates: the failures behind them follow
    of_cases = sorted(_causes(_of_errors(report)), key=lambda cause: (not cause.counts, not cause.of_gate))
    return [*_causes(map(_of_reason, rest)), *of_cases]


def _causes(occurrences: Iterable[tuple[Hashable, Cause]]) -> list[Cause]:
    """The occurrences with the same key as one cause, which has a note if all of them have it.

    The text is that of the first, and says so where others have other values.
    """
    found = []
    for group in grouped(occurrences).values():
        labels, places, cases = (
            tuple(dict.fromkeys(value for one in group for value in getattr(one, name)))
            for name in ("labels", "places", "cases")
        )
        note = group[0].note if len({one.note for one in group}) == 1 else ""
        text = group[0].text
        if any(one.text != text for one in group):
            text += ", elsewhere with other values"
        found.append(replace(group[0], text=text, labels=labels, places=places, cases=cases, note=note))
    return found


def _of_reason(reason: ReasonJson) -> tuple[Hashable, Cause]:
    where = reason["where"]
    text = reason["message"].removeprefix(f"{where}: ")
    key = (reason["code"], reason["metric"], normalised(text) if where else text)
    case = reason["case_id"] or where
    places = () if where is None else ((where, 0),)
    return key, Cause(text, (), places, (case,) if case else (), where=where or "")


def _of_errors(report: Report) -> Iterator[tuple[Hashable, Cause]]:
    comparing = _comparing(report)
    for error in report.unique_errors:
        label, description = error["label"], error["description"]
        for occurrence in error["occurrences"]:
            name, number = occurrence["conversation"], occurrence["turn"]
            _, conversation = report.by_name.get(name, (None, None))
            text, note, where = description, "", name
            key: Hashable = normalised(description)
            if conversation is not None:
                turn = next((turn for turn in conversation.turns if turn.index + 1 == number), None)
                note = _note(report, conversation, turn, label)
                where = conversation.where(turn) if turn else conversation.label
                known = label in comparing and (turn or number == 0)
                if known and (changes := report.differences(conversation, turn)):
                    text, key = _differences(changes)
            case = (conversation.case_id if conversation else None) or name
            labels = () if label in NO_METRICS else (label,)  # the text says it
            yield (key, bool(note)), Cause(text, labels, ((name, number),), (case,), note, where)


def _comparing(report: Report) -> set[str]:
    """The metrics that compare the calls of a case with the expected ones, without a judge."""
    evaluators = [spec.build() for spec in report.suite.specs] if report.suite else []
    given = "expected_tool_calls"
    return {item.metric for item in evaluators if given in (*item.needs, item.criterion) and not item.needs_judge}


def _note(report: Report, conversation: RunConversation, turn: ConversationTurn | None, label: str) -> str:
    if label in NO_METRICS:
        tolerated = report.suite.tolerate if report.suite else ()
        return TOLERATED_BY_SUITE if label in tolerated else ""
    results = conversation.results if turn is None else turn.results
    notes = (report.note(conversation, turn, result) for result in results if label in (result.label, result.evaluator))
    return next((note for note in notes if note), "")


def _differences(changes: list[tuple[CallChange, str]]) -> tuple[str, Hashable]:
    """How calls differ, as a sentence and as a key that is equal for the same differences with other values."""
    words = {
        "moved": "called in another position",
        "removed": "missing",
        "unknown": "not visible",
        "added": "not expected",
    }
    texts: list[str] = []
    key: set[tuple[str, ...]] = set()
    for change, tool in changes:
        if change.kind != "changed":
            texts.append(f"{tool} {words[change.kind]}")
            key.add((change.kind, tool, "", ""))
        for difference in change.differences:
            texts.append(f"{tool}: {difference}")
            key.add((change.kind, tool, difference.part, difference.path, difference.problem))
    distinct = list(dict.fromkeys(texts))
    more = len(distinct) - MAX_DIFFERENCES
    told = distinct[:MAX_DIFFERENCES] + ([counted(more, "more difference")] if more > 0 else [])
    return "; ".join(told), frozenset(key)
