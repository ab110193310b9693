"""The report as JUnit XML for CI: one testcase for each rule and interface."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tool_call_evaluators.report.junit import junit_document
from tool_call_evaluators.report.wording import printable

from ..rules.base import CheckVerdict, Problem, RuleResult, RuleStatus
from .report import CheckReport
from .wording import card_name, excerpt_text, place, request_lines, verdict_sentence


def report_junit(report: CheckReport, url: str) -> str:
    """Failed rules are failures, warnings pass with their text as output, and unseen rules are skipped.

    An inconclusive check adds a failure: most rules had nothing to check.
    """
    suite = ET.Element("testsuite", name=printable(f"a2a-eval-proxy check {url}"))
    properties = ET.SubElement(suite, "properties")
    for name, value in (("agent", card_name(report)), ("verdict", report.verdict.value)):
        ET.SubElement(properties, "property", name=name, value=printable(value))
    for result in report.results:
        suite.append(_testcase(result))
    if report.verdict is CheckVerdict.INCONCLUSIVE:
        case = ET.SubElement(suite, "testcase", classname="check", name="tool-calls-seen")
        ET.SubElement(case, "failure", message=verdict_sentence(report), type="inconclusive")
    return junit_document(suite)


def _testcase(result: RuleResult) -> ET.Element:
    case = ET.Element("testcase", classname=f"check.{result.place.replace('.', '_')}", name=result.rule.id)
    if result.problems:
        problems = "\n\n".join(_problem_text(problem) for problem in result.problems)
        text = printable(f"{problems}\n\nwhy: {result.rule.why}\nfix: {result.rule.fix}")
        if result.status is RuleStatus.FAILED:
            message = printable(result.problems[0].message)
            ET.SubElement(case, "failure", message=message, type=result.rule.id).text = text
        else:
            ET.SubElement(case, "system-out").text = f"warning: {text}"
    elif result.reason:
        ET.SubElement(case, "skipped", message=printable(result.reason))
    return case


def _problem_text(problem: Problem) -> str:
    lines = [problem.message, *(f"  {line}" for line in request_lines(problem.request)), f"  -> {place(problem)}"]
    if excerpt := excerpt_text(problem):
        lines.append(f"     {excerpt}")
    return "\n".join(lines)
