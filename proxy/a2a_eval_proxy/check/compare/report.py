"""The report of a comparison as text, JSON and JUnit XML."""

from __future__ import annotations

from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

from rich.console import Console
from tool_call_evaluators.report.junit import junit_document
from tool_call_evaluators.texts import counted, printable

from ..report.wording import as_markup
from .comparison import CARD, ComparisonReport
from .differences import Delta, OperationComparison


def verdict(report: ComparisonReport) -> str:
    if report.differences:
        return counted(report.differences, "difference")
    return "no differences" if report.passed else "no interface was compared"


def print_comparison(report: ComparisonReport, console: Console) -> None:
    """Print the differences, those by design, and what was compared."""

    def line(text: str, **options: Any) -> None:
        console.print(text, soft_wrap=True, **options)

    line(f"agent    {as_markup(report.agent or 'unnamed')}, {as_markup(report.url)}")
    line(f"via      {as_markup(report.via)}")
    for message in report.messages:
        line(f"message  {as_markup(message)}")
    for mark, deltas in (
        ("[bold red]DIFFERENT[/bold red]", [(one, delta) for one in report.comparisons for delta in one.faults]),
        ("[yellow]by design[/yellow]", [(one, delta) for one in report.comparisons for delta in one.designed]),
    ):
        for (what, direct, proxied, design), places in _grouped(deltas).items():
            line(f"\n{mark} {as_markup(what)}")
            for interface, operations in places.items():
                line(f"  in       {as_markup(': '.join(filter(None, (interface, ', '.join(operations)))))}")
            line(f"  direct   {as_markup(direct)}")
            line(f"  proxied  {as_markup(proxied)}")
            if design:
                line(f"  why      {as_markup(design)}", style="dim")
    line("")
    for name, count in Counter(one.interface for one in report.comparisons if one.interface and one.operation).items():
        line(f"compared     {as_markup(name)}: {counted(count, 'operation')}")
    for one in report.comparisons:
        if one.varies:
            place = ", ".join(filter(None, (one.interface, one.operation)))
            line(as_markup(f"varies       {place}: {', '.join(one.varies)}: two direct answers differ there, too"))
    for note in report.notes:
        line(f"not compared {as_markup(note)}")
    line(f"\n[{'green' if report.passed else 'red'}]{verdict(report)}[/]")


def _grouped(
    deltas: list[tuple[OperationComparison, Delta]],
) -> dict[tuple[str, str, str, str], dict[str, list[str]]]:
    """Groups equal differences; returns their interfaces and operations. Those by design may have other values."""
    groups: dict[tuple[str, str, str, str], dict[str, list[str]]] = {}
    for one, delta in deltas:
        key = (delta.what, delta.direct, delta.proxied, delta.design)
        if delta.design:
            key = next((known for known in groups if (known[0], known[3]) == (delta.what, delta.design)), key)
        groups.setdefault(key, {}).setdefault(one.interface, []).append(one.operation)
    return groups


def comparison_json(report: ComparisonReport) -> dict[str, Any]:
    """Returns the whole report. `interface` is null for the agent card."""
    return {
        "agent": report.agent,
        "url": report.url,
        "via": report.via,
        "verdict": verdict(report),
        "messages": list(report.messages),
        "compared": [
            {
                "interface": one.interface or None,
                "operation": one.operation or None,
                "differences": [_json(delta) for delta in one.faults],
                "by_design": [{**_json(delta), "why": delta.design} for delta in one.designed],
                "varies": one.varies,
            }
            for one in report.comparisons
        ],
        "not_compared": list(report.notes),
    }


def _json(delta: Delta) -> dict[str, Any]:
    return {"what": delta.what, "direct": delta.direct, "proxied": delta.proxied}


def comparison_junit(report: ComparisonReport) -> str:
    """One testcase for each operation of each interface; differences are failures."""
    suite = ET.Element("testsuite", name=printable(f"a2a-eval-proxy check {report.url} --via {report.via}"))
    for one in report.comparisons:
        interface = one.interface or CARD
        case = ET.SubElement(suite, "testcase", classname=printable(interface), name=one.operation or "interface")
        if one.faults:
            failure = ET.SubElement(case, "failure", message=printable(one.faults[0].what), type="difference")
            failure.text = printable("\n".join(map(_line, one.faults)))
        if one.designed:
            lines = (f"by design: {_line(delta)} ({delta.design})" for delta in one.designed)
            ET.SubElement(case, "system-out").text = printable("\n".join(lines))
    if not report.passed and not report.differences:
        case = ET.SubElement(suite, "testcase", classname=CARD, name="interfaces")
        failure = ET.SubElement(case, "failure", message=verdict(report), type="nothing compared")
        failure.text = printable("\n".join(report.notes))
    return junit_document(suite)


def _line(delta: Delta) -> str:
    return f"{delta.what}: direct {delta.direct}, proxied {delta.proxied}"
