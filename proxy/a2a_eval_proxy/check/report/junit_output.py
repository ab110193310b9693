"""A report for CI: JUnit XML, one testcase for each rule and interface."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from tool_call_evaluators.report.wording import printable

from ..rules.base import Problem, Result, Status, Verdict
from .report import Report
from .wording import card_name, excerpt_text, place, request_lines, verdict_sentence


def report_junit(report: Report, url: str) -> str:
    """Failures are the breaches that make the agent fail; warnings pass, with their text; the unseen is skipped.

    An inconclusive check is a failure of its own: it passed nothing.
    """
    suite = ET.Element("testsuite", name=printable(f"a2a-eval-proxy check {url}"))
    properties = ET.SubElement(suite, "properties")
    for name, value in (("agent", card_name(report)), ("verdict", report.verdict.value)):
        ET.SubElement(properties, "property", name=name, value=printable(value))
    for result in report.results:
        suite.append(_testcase(result))
    if report.verdict is Verdict.INCONCLUSIVE:
        case = ET.SubElement(suite, "testcase", classname="check", name="tool-calls-seen")
        ET.SubElement(case, "failure", message=verdict_sentence(report), type="inconclusive")
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _testcase(result: Result) -> ET.Element:
    where = str(result.interface) if result.interface else "agent card"
    case = ET.Element("testcase", classname=f"check.{where.replace('.', '_')}", name=result.rule.id)
    outcome = result.outcome
    if outcome.problems:
        told = "\n\n".join(_told(problem) for problem in outcome.problems)
        text = printable(f"{told}\n\nwhy: {result.rule.why}\nfix: {result.rule.fix}")
        if result.status is Status.FAILED:
            message = printable(outcome.problems[0].message)
            ET.SubElement(case, "failure", message=message, type=result.rule.id).text = text
        else:
            ET.SubElement(case, "system-out").text = f"warning: {text}"
    elif outcome.unseen or outcome.skipped:
        ET.SubElement(case, "skipped", message=printable(outcome.unseen or outcome.skipped))
    return case


def _told(problem: Problem) -> str:
    lines = [problem.message, *(f"  {line}" for line in request_lines(problem.request)), f"  -> {place(problem)}"]
    if excerpt := excerpt_text(problem):
        lines.append(f"     {excerpt}")
    return "\n".join(lines)
