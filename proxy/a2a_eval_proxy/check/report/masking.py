"""Reports without the credentials of whoever asked: agents quote what they were sent. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ..probe.credentials import LEAST_LENGTH
from ..probe.record import Request
from ..rules.base import Outcome, Problem
from .report import Report

_MAX_DEPTH = 200


def discreet(report: Report, credentials: Collection[str]) -> Report:
    """The report with `***` where a credential stood in what the agent said."""
    if not credentials:
        return report
    longest_first = sorted(credentials, key=len, reverse=True)

    def text(said: str) -> str:
        for credential in longest_first:
            said = _without_beginning(said.replace(credential, "***"), credential)
        return said

    def value(said: Any, depth: int = _MAX_DEPTH) -> Any:
        if isinstance(said, str):
            return text(said)
        if isinstance(said, dict | list) and depth == 0:
            return "***"
        if isinstance(said, dict):
            return {text(str(key)): value(item, depth - 1) for key, item in said.items()}
        return [value(item, depth - 1) for item in said] if isinstance(said, list) else said

    def request(sent: Request) -> Request:  # ids in it are the agent's
        return replace(sent, url=text(sent.url), body=text(sent.body.decode(errors="replace")).encode())

    def problem(found: Problem) -> Problem:
        return replace(
            found,
            message=text(found.message),
            request=request(found.request),
            where=text(found.where),
            excerpt=value(found.excerpt),
        )

    def outcome(found: Outcome) -> Outcome:
        return replace(found, problems=tuple(map(problem, found.problems)), unseen=text(found.unseen))

    record = report.record
    return replace(
        report,
        record=replace(record, card=replace(record.card, card=value(record.card.card))),
        results=tuple(replace(result, outcome=outcome(result.outcome)) for result in report.results),
    )


def _without_beginning(said: str, credential: str) -> str:
    """Long answers are cut, perhaps within a credential."""
    end = said.rstrip("'\"")
    for length in range(len(credential) - 1, LEAST_LENGTH - 1, -1):
        if end.endswith(credential[:length]):
            return f"{end[:-length]}***{said[len(end) :]}"
    return said
