"""JUnit XML: one testcase for each case, so that any CI shows what failed.

A conversation that failed is a failure even if a gate tolerates it; the message then says so. Each reason that concerns
the run as a whole is a testcase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..attempts import EXCLUSIONS
from ..gates import TOLERABLE
from ..grouping import grouped
from ..model import Status
from ..outcomes.conversations import RunConversation
from ..simulation.record import fault_counts
from ..texts import excerpt, gate_name, gate_word
from .html import rendered
from .model import ReasonJson, Report, duration
from .templating import plain_text

MAX_OUTPUT = 10_000
"""Maximum length of the transcript in a testcase, in characters."""

ERROR_CODES = ("nothing_ran", *TOLERABLE)
"""Reasons that something did not run, as opposed to a bad result."""


def junit_xml(report: Report) -> str:
    """The run as JUnit XML, in the structure that Jenkins, GitLab, Azure and GitHub actions read."""
    return junit_document(*map(_suite, report.parts or [report]))


def junit_document(*suites: Mapping[str, Any]) -> str:
    """The document of suites, each with a `name`, `properties` (pairs) and `cases`, perhaps `seconds` and `started_at`.

    A case has a `classname` and a `name`; perhaps `seconds`, an `output`, a `problem` (`element`, `message`, `text` and
    perhaps a `type`) and `attempts` (`element`, `message`, `text` and `output`).
    """
    return rendered("junit.xml", suites=suites) + "\n"


def _suite(report: Report) -> dict[str, Any]:
    facts = [("run", report.run), *(("agent", agent) for agent in report.agents)]
    facts += [(code, str(count)) for code, count in fault_counts(report.users).items()]
    facts += [(f"gate {gate_name(check)}", f"{check['text']}, {gate_word(check)}") for check in report.gates]
    facts += [("quarantine", sentence) for sentence in report.quarantined.values()]
    facts += [("excluded attempts", text)] if (text := report.excluded_text) else []
    facts += [(f"judge {metric}", judge["text"]) for metric, judge in report.judges.items()]
    groups = grouped((item.case_name or item.label, item) for item in report.conversations)
    cases = [_testcase(report, name, group) for name, group in groups.items()]
    seconds = sum(case["seconds"] for case in cases)
    for reason in report.run_reasons:
        name, problem = reason["metric"] or reason["code"], _problem([reason])
        cases.append({"classname": f"{report.title}.gates", "name": name, "seconds": 0.0, "problem": problem})
    return {
        "name": report.title,
        "properties": facts,
        "cases": cases,
        "seconds": seconds,
        "started_at": report.started_at,
    }


def _testcase(report: Report, name: str, group: Sequence[RunConversation]) -> dict[str, Any]:
    output = "\n\n".join(_transcript(report, conversation) for conversation in group)
    case: dict[str, Any] = {
        "classname": report.title,
        "name": name,
        "seconds": sum(duration(turn) or 0.0 for item in group for turn in item.executed),
        "output": excerpt(output, MAX_OUTPUT),
    }
    reasons = [reason for conversation in group for reason in report.reasons_of(conversation)]
    attempts = report.attempts.get(name)
    failed = [item for item in group if attempts is not None and attempts.statuses[item.label] == "failed"]
    flaky = failed if attempts is not None and attempts.accepted else []
    if not reasons and not flaky:
        notes = [f"{item.label}: {'; '.join(report.notes(item))}" for item in group if report.notes(item)]
        reasons = [{"code": str(Status.FAILED), "message": note} for note in notes]
    if (sentence := report.quarantined.get(name)) is not None and reasons:
        case["problem"], reasons = _skipped(sentence), []
    elif reasons:
        case["problem"] = _problem(reasons)
    if reasons or flaky:
        element = "flakyFailure" if flaky else "rerunFailure"
        case["attempts"] = [_attempt(element, report, item) for item in flaky or failed[1:]]
    elif all(report.status(conversation) == "unscored" for conversation in group):
        case.setdefault("problem", _skipped("nothing was measured"))
    return case


def _skipped(why: str) -> dict[str, str]:
    return {"element": "skipped", "message": why, "text": ""}


def _attempt(element: str, report: Report, attempt: RunConversation) -> dict[str, str]:
    """A failed attempt, next to the outcome of its case, as Maven Surefire writes it (surefire-test-report-3.0.xsd)."""
    why = [turn.failure for turn in attempt.turns if turn.failure]
    why += [f"{one.evaluator} {one.status}: {one.reason}" for one in attempt.all_results if one.bad]
    return {
        "element": element,
        "message": excerpt(f"{attempt.label}: {why[0]}", 1_000),
        "text": excerpt("\n".join(why), MAX_OUTPUT),
        "output": excerpt(_transcript(report, attempt), MAX_OUTPUT),
    }


def _problem(reasons: Sequence[ReasonJson]) -> dict[str, str]:
    """One element for all reasons: some readers use only the first."""
    return {
        "element": "error" if all(reason["code"] in ERROR_CODES for reason in reasons) else "failure",
        "message": excerpt(reasons[0]["message"], 1_000),
        "type": reasons[0]["code"],
        "text": excerpt("\n".join(reason["message"] for reason in reasons), MAX_OUTPUT),
    }


def _transcript(report: Report, conversation: RunConversation) -> str:
    why = report.exclusion(conversation)
    excluded = "" if why is None else EXCLUSIONS[why]
    return plain_text("transcript.txt", report=report, conversation=conversation, excluded=excluded)
