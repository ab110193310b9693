"""Masks the user's credentials in reports: agents may quote the request. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ..probe.credentials import LEAST_LENGTH
from ..probe.record import ProbeRequest
from ..rules.base import Problem, RuleOutcome
from .report import CheckReport

_MAX_DEPTH = 200


def mask_credentials(report: CheckReport, credentials: Collection[str]) -> CheckReport:
    """Returns the report with `***` in place of every credential."""
    if not credentials:
        return report
    longest_first = sorted(credentials, key=len, reverse=True)

    def text(original: str) -> str:
        for credential in longest_first:
            original = _without_prefix_at_end(original.replace(credential, "***"), credential)
        return original

    def value(original: Any, depth: int = _MAX_DEPTH) -> Any:
        if isinstance(original, str):
            return text(original)
        if isinstance(original, dict | list) and depth == 0:
            return "***"
        if isinstance(original, dict):
            return {text(str(key)): value(item, depth - 1) for key, item in original.items()}
        return [value(item, depth - 1) for item in original] if isinstance(original, list) else original

    def request(sent: ProbeRequest) -> ProbeRequest:  # its ids come from the agent
        return replace(sent, url=text(sent.url), body=text(sent.body.decode(errors="replace")).encode())

    def problem(found: Problem) -> Problem:
        return replace(
            found,
            message=text(found.message),
            request=request(found.request),
            where=text(found.where),
            excerpt=value(found.excerpt),
        )

    def outcome(found: RuleOutcome) -> RuleOutcome:
        return replace(found, problems=tuple(map(problem, found.problems)), unseen=text(found.unseen))

    record = report.record
    return replace(
        report,
        record=replace(record, card=replace(record.card, card=value(record.card.card))),
        results=tuple(replace(result, outcome=outcome(result.outcome)) for result in report.results),
    )


def _without_prefix_at_end(text: str, credential: str) -> str:
    """Masks a credential that truncation cut in two: its prefix at the end of `text`."""
    end = text.rstrip("'\"")
    for length in range(len(credential) - 1, LEAST_LENGTH - 1, -1):
        if end.endswith(credential[:length]):
            return f"{end[:-length]}***{text[len(end) :]}"
    return text
