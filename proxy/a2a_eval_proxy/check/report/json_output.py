"""The report as JSON: every result with its reason and evidence."""

from __future__ import annotations

import json
from typing import Any

from tool_call_evaluators.report.wording import cut, finite

from ..rules.base import Problem, RuleResult
from .report import CheckReport
from .wording import card_name, messages, notified

MAX_EXCERPT_CHARS = 10_000


def report_json(report: CheckReport, url: str) -> dict[str, Any]:
    """Returns the whole report. `interface` is null for results about the card."""
    return {
        "agent": card_name(report),
        "url": url,
        "verdict": report.verdict.value,
        "tool_calls_seen": report.calls_seen,
        "messages": messages(report),
        "interfaces": [
            {"name": str(item.interface), "url": item.interface.url} for item in report.record.conversations
        ],
        "notifications": notified(report),
        "not_checked": [{"interface": left.interface, "reason": left.reason} for left in report.record.not_checked],
        "results": [_result(result) for result in report.results],
    }


def _result(result: RuleResult) -> dict[str, Any]:
    return {
        "rule": result.rule.id,
        "title": result.rule.title,
        "severity": result.rule.severity.value,
        "interface": str(result.interface) if result.interface else None,
        "status": result.status.value,
        "reason": result.reason or None,
        "why": result.rule.why,
        "fix": result.rule.fix,
        "problems": [_problem(problem) for problem in result.problems],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    request = problem.request
    return {
        "message": problem.message,
        "request": {
            "method": request.method,
            "url": request.url,
            "headers": dict(request.headers),
            "body": request.body.decode(errors="replace") or None,
        },
        "status": problem.status or None,
        "grpc_status": problem.grpc_status or None,
        "where": problem.where or None,
        "excerpt": _bounded(finite(problem.excerpt)),
    }


def _bounded(excerpt: Any) -> Any:
    """Returns the value, or the start of its JSON if it exceeds MAX_EXCERPT_CHARS."""
    text = json.dumps(excerpt, ensure_ascii=False)
    return excerpt if len(text) <= MAX_EXCERPT_CHARS else cut(text, MAX_EXCERPT_CHARS)
