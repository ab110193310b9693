"""The report of a run as files: HTML and Markdown for people, JUnit XML and JSON for machines, suites to run again.

With ArkSim's files as the suite, also in ArkSim's format.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from tool_call_evaluators.arksim.files.results import ArksimResults
from tool_call_evaluators.report import Report, html_report, json_report, junit_xml, markdown_summary
from tool_call_evaluators.report.focus import focus_suites

from ..files import refuse_link, write_file
from .compare import write_page

PAGE = "report.html"
_FORMS = {"report.json": json_report, "junit.xml": junit_xml, "summary.md": markdown_summary}
_FOCUS = "focus"
_FOCUS_FILES = ("all-failures.yaml", "error-[0-9][0-9]*.yaml", "all_failures.json", "error_[0-9]*.json")

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"

logger = logging.getLogger(__name__)


def publish_report(
    report: Report,
    folder: Path | None,
    environ: Mapping[str, str] = os.environ,
    *,
    page: str = PAGE,
    arksim: ArksimResults | None = None,
) -> Path | None:
    """Write all forms of `report` into `folder` (created if necessary); the HTML page's path, None without a folder.

    `folder` gets report.html, report.json, junit.xml, summary.md, with a baseline comparison.html, and in focus/ a
    suite of everything that failed and one for each distinct error; those of an earlier report go. `page` is the name
    of the HTML page, "" for none; `arksim` adds evaluation.json, and to focus/ scenario files. The Markdown summary is
    also appended to the file that GITHUB_STEP_SUMMARY names, with or without a folder; where that cannot be written, a
    warning is logged: the CI has set it, and the run is no worse for it. Raises OSError where a file of `folder` cannot
    be written, or is a symbolic link.
    """
    if summary := environ.get(STEP_SUMMARY):
        try:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(markdown_summary(report) + "\n")
        except OSError as error:
            logger.warning("%s names %s, which cannot be written: %s", STEP_SUMMARY, summary, error.strerror)
    if folder is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for name, form in {**_FORMS, page: html_report}.items():
        if name:
            write_file(folder / name, form(report))
    if report.baseline is not None:
        write_page(report.baseline, folder)
    if arksim is not None:
        write_file(folder / "evaluation.json", arksim.evaluation())
    focus = {f"{focus.name}.yaml": focus.text for focus in focus_suites(report)}
    _write_focus(folder / _FOCUS, focus | (arksim.focus() if arksim else {}))
    return folder / (page or "report.json")


def _write_focus(folder: Path, files: Mapping[str, str]) -> None:
    refuse_link(folder)
    for pattern in _FOCUS_FILES:
        for old in folder.glob(pattern):
            old.unlink()
    for name, text in files.items():
        folder.mkdir(exist_ok=True)
        write_file(folder / name, text)
