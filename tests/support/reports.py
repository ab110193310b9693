"""Reports of runs that tests make up, and of the demo's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tool_call_evaluators import load_suite, parse_suite
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.suite import Suite

ROOT = Path(__file__).parents[2]
NO_SUITE = parse_suite("suite: none")


def report(turns: list[dict[str, Any]], suite: Suite | None = None, **more: Any) -> Report:
    """`more` goes to `build_report`."""
    verdict = run_verdict(suite or NO_SUITE, follow(turns, suite, more.get("conversation_results")))
    return build_report("nightly", turns, verdict.to_dict(), suite=suite, **more)


def demo_turns() -> list[dict[str, Any]]:
    lines = (ROOT / "tests/evaluators/fixtures/demo-turns.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def demo_suite() -> Suite:
    return load_suite(ROOT / "proxy/a2a_eval_proxy/features/demo/suite.yaml")
