"""Builds suites that repeat only what failed: one of all failures, one of each distinct error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..outcomes.conversations import RunConversation, failures
from ..suite import Case, CaseTurn, EvaluatorSpec, Suite
from ..suite.writing import printable_id, slug, suite_text
from .model import Report

ALL = "all-failures"
"""In a run of several suites there is one for each: `all-failures-1-orders`."""
MAX_FILE_NAME = 40
"""Maximum length of the part of a name that is made of an error or a suite, in characters."""
MAX_FILES = 100
"""Maximum number of distinct errors with a suite of their own; `ALL` contains all."""

_ABOUT_PLUGINS = "Its plug-ins are outside its directory: run it with --allow-plugins."


def focus_suites(report: Report) -> dict[str, str]:
    """The text of the suite of all failures, then of one for each of the report's distinct errors, by the names of
    their files without suffix; empty without failures.

    Evaluators, gates and the rest are those of the run's suite. A suite with a part of its cases tolerates unmeasured
    metrics: only the omitted cases may have expectations for them. Conversations without a case are repeated with the
    same messages, without expectations. In a run of several suites, each has its own focus suites.
    """
    if report.parts:
        return {
            name + _suffix(report, part): text for part in report.parts for name, text in focus_suites(part).items()
        }
    wanted = {ALL: ("All failures.", {failure.conversation for failure in failures(report.conversations)})}
    for number, error in enumerate(report.unique_errors[:MAX_FILES], start=1):
        names = {occurrence["conversation"] for occurrence in error["occurrences"]}
        title = f"{error['label']}: {error['description']}"
        wanted[f"error-{number:02}-{_file_name(error['label'])}"] = title, names
    cases = _cases(report)
    made = {name: _focus(report, title, cases, names) for name, (title, names) in wanted.items()}
    return {name: text for name, text in made.items() if text is not None}


def all_failures(report: Report, conversation: RunConversation) -> str:
    """The name of the suite of all failures that has the case of this conversation."""
    part = report.part_by_label.get(conversation.label)
    return ALL + _suffix(report, part) if part else ALL


def _suffix(report: Report, part: Report) -> str:
    """Of the names of one suite's focus suites, in a run of several."""
    number = next(number for number, each in enumerate(report.parts, start=1) if each is part)
    return f"-{number}-{_file_name(part.title)}"


def _file_name(text: str) -> str:
    return slug(text, MAX_FILE_NAME) or "unnamed"


def _cases(report: Report) -> dict[str, Case]:
    """The case that repeats the messages of a conversation, by its label and by its id."""
    cases = {name: conversation.case or _repeated(conversation) for name, (_, conversation) in report.by_name.items()}
    return {name: case for name, case in cases.items() if case is not None}


def _repeated(conversation: RunConversation) -> Case | None:
    texts = [turn["user_text"] for turn in conversation.executed]
    if not texts or not all(text.strip() for text in texts):
        return None
    return Case(id=printable_id(conversation.label), given=conversation.history, turns=tuple(map(CaseTurn, texts)))


def _focus(report: Report, title: str, cases: dict[str, Case], names: Iterable[str]) -> str | None:
    wanted = {cases[label].id: cases[label] for label in names if label in cases}
    in_order = [case for case in dict.fromkeys(case.id for case in cases.values()) if case in wanted]
    if not in_order:
        return None
    whole = report.suite or Suite(name=report.run, evaluators=(EvaluatorSpec("tool_error"),))
    suite = replace(whole, cases=tuple(wanted[case_id] for case_id in in_order))
    if wanted.keys() != {case.id for case in whole.cases}:
        suite = replace(suite, tolerate=suite.tolerate | {"unmeasured"})
    hint = [_ABOUT_PLUGINS] if suite.plugins else []
    return suite_text(suite, [f"From run {report.run}.", *title.splitlines()[:5], *hint])
