"""JUnit XML: one testcase for each case, so that any CI shows what failed.

A conversation that failed is a failure even if a gate tolerates it; the message then says so. Each reason that concerns
the run as a whole is a testcase.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from ..attempts import EXCLUSIONS
from ..gates import TOLERABLE
from ..grouping import grouped
from ..model import EvalResult, Status
from ..outcomes.conversations import ConversationTurn, RunConversation
from ..simulation.record import fault_counts, user_text
from ..texts import call_text, excerpt, gate_name, gate_word, printable, score_text
from .model import ReasonJson, Report, duration

MAX_OUTPUT = 10_000
"""Maximum length of the transcript in a testcase, in characters ..."""
MAX_TEXT = 500
"""... and of a single text."""

ERROR_CODES = ("nothing_ran", *TOLERABLE)
"""Reasons that something did not run, as opposed to a bad result."""


def junit_xml(report: Report) -> str:
    """The run as JUnit XML, in the structure that Jenkins, GitLab, Azure and GitHub actions read."""
    return junit_document(*map(_suite, report.parts or [report]))


def _suite(report: Report) -> ET.Element:
    suite = ET.Element("testsuite", name=printable(report.title))
    facts = [("run", report.run), *(("agent", agent) for agent in report.agents)]
    facts += [(code, str(count)) for code, count in fault_counts(report.users).items()]
    facts += [(f"gate {gate_name(check)}", f"{check['text']}, {gate_word(check)}") for check in report.gates]
    facts += [("quarantine", sentence) for sentence in report.quarantined.values()]
    facts += [("excluded attempts", text)] if (text := report.excluded_text) else []
    facts += [(f"judge {metric}", judge["text"]) for metric, judge in report.judges.items()]
    properties = ET.SubElement(suite, "properties")
    for name, value in facts:
        ET.SubElement(properties, "property", name=printable(name), value=printable(value))
    seconds = 0.0
    for name, group in grouped((item.case_name or item.label, item) for item in report.conversations).items():
        case, took = _testcase(report, name, group)
        suite.append(case)
        seconds += took
    for reason in report.run_reasons:
        case = ET.SubElement(suite, "testcase", classname=f"{printable(report.title)}.gates", time="0.000")
        case.set("name", printable(reason["metric"] or reason["code"]))
        _problem(case, [reason])
    suite.set("time", f"{seconds:.3f}")
    if report.started_at:
        suite.set("timestamp", report.started_at.partition(".")[0])
    return suite


def junit_document(*suites: ET.Element) -> str:
    """The document of the suites, each of which gets the numbers of its test cases and problems."""
    root = ET.Element("testsuites")
    for suite in suites:
        suite.set("tests", str(len(suite.findall("testcase"))))
        for kind in ("failures", "errors", "skipped"):
            suite.set(kind, str(len(suite.findall(f"testcase/{kind.removesuffix('s')}"))))
        root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _testcase(report: Report, name: str, group: Sequence[RunConversation]) -> tuple[ET.Element, float]:
    turns = [turn for item in group for turn in item.executed]
    seconds = sum(duration(turn) or 0.0 for turn in turns)
    case = ET.Element("testcase", classname=printable(report.title), name=printable(name), time=f"{seconds:.3f}")
    reasons = [reason for conversation in group for reason in report.reasons_of(conversation)]
    attempts = report.attempts.get(name)
    failed = [item for item in group if attempts is not None and attempts.statuses[item.label] == "failed"]
    flaky = failed if attempts is not None and attempts.accepted else []
    if not reasons and not flaky:
        notes = [f"{item.label}: {'; '.join(report.notes(item))}" for item in group if report.notes(item)]
        reasons = [{"code": str(Status.FAILED), "message": note} for note in notes]
    if (sentence := report.quarantined.get(name)) is not None and reasons:
        ET.SubElement(case, "skipped", message=printable(sentence))
        reasons = []
    elif reasons:
        _problem(case, reasons)
    if reasons or flaky:
        for item in flaky or failed[1:]:
            _attempt(case, "flakyFailure" if flaky else "rerunFailure", report, item)
    elif all(report.status(conversation) == "unscored" for conversation in group):
        ET.SubElement(case, "skipped", message="nothing was measured")
    output = "\n\n".join(_transcript(report, conversation) for conversation in group)
    ET.SubElement(case, "system-out").text = printable(excerpt(output, MAX_OUTPUT))
    return case, seconds


def _attempt(case: ET.Element, kind: str, report: Report, attempt: RunConversation) -> None:
    """A failed attempt, next to the outcome of its case, as Maven Surefire writes it (surefire-test-report-3.0.xsd)."""
    bad = [result for result in attempt.all_results if result.bad]
    why = [turn.failure for turn in attempt.turns if turn.failure]
    why += [f"{result.evaluator} {result.status}: {result.reason}" for result in bad]
    message = printable(excerpt(f"{attempt.label}: {why[0]}", 1_000))
    failure = ET.SubElement(case, kind, message=message, type=str(Status.FAILED))
    ET.SubElement(failure, "stackTrace").text = printable(excerpt("\n".join(why), MAX_OUTPUT))
    ET.SubElement(failure, "system-out").text = printable(excerpt(_transcript(report, attempt), MAX_OUTPUT))


def _problem(case: ET.Element, reasons: Sequence[ReasonJson]) -> None:
    """One element for all reasons: some readers use only the first."""
    kind = "error" if all(reason["code"] in ERROR_CODES for reason in reasons) else "failure"
    first = reasons[0]
    problem = ET.SubElement(case, kind, message=printable(excerpt(first["message"], 1_000)), type=first["code"])
    problem.text = printable(excerpt("\n".join(reason["message"] for reason in reasons), MAX_OUTPUT))


def _transcript(report: Report, conversation: RunConversation) -> str:
    """The messages, calls and results of a conversation, as lines."""
    lines = [f"conversation {conversation.label}"]
    if (why := report.exclusion(conversation)) is not None:
        lines.append(f"excluded: {EXCLUSIONS[why]}")
    for turn in conversation.turns:
        lines += _turn_lines(report, conversation, turn)
    lines += [f"  {_result(result, report.note(conversation, None, result))}" for result in conversation.results]
    if conversation.user:
        lines.append(f"simulated user: {user_text(conversation.user)}")
    return "\n".join(lines)


def _turn_lines(report: Report, conversation: RunConversation, turn: ConversationTurn) -> list[str]:
    if turn.turn is None:
        return [f"turn {turn.index + 1}: not executed (no matching turn)"]
    lines = [f"turn {turn.index + 1} ({turn.turn['turn_id']})", f"  user: {excerpt(turn.turn['user_text'], MAX_TEXT)}"]
    calls = turn.turn["tool_calls"]
    lines += [f"  call: {call_text(call)}{' [error]' if call['error'] else ''}" for call in calls]
    lines.append(f"  {turn.turn.get('agent_name') or 'agent'}: {excerpt(turn.turn['response_text'], MAX_TEXT)}")
    lines += [f"  {_result(result, report.note(conversation, turn, result))}" for result in turn.results]
    lines += [f"  finding: {item['severity']} {item['code']}: {item['message']}" for item in turn.turn["findings"]]
    return lines


def _result(result: EvalResult, note: str) -> str:
    value = result.label if result.score is None and result.label else score_text(result.score)
    note = f" ({note})" if note else ""
    return f"{result.status}: {result.evaluator} {value}{note}: {excerpt(result.reason, MAX_TEXT)}"
