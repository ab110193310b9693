"""Applies all rules to a record, and masks the user's credentials in the results. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import groupby
from typing import Any

from a2a_tool_capture.json_limits import WALKED

from .card_rules import CARD_RULES
from .record import ProbeRecord
from .rules import CheckVerdict, RuleResult, RuleStatus, subjects_of
from .traffic_rules import TRAFFIC_RULES


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A finished check: the record, and the result of each rule for the card and for each interface."""

    record: ProbeRecord
    results: tuple[RuleResult, ...]
    calls_seen: bool
    """Whether any answer to a request that activates version 1 shows calls."""

    @property
    def by_rule(self) -> list[list[RuleResult]]:
        """The results of each rule, in the order of the tables."""
        return [list(results) for _, results in groupby(self.results, key=lambda result: result.rule.id)]

    @property
    def verdict(self) -> CheckVerdict:
        if any(result.status is RuleStatus.FAILED for result in self.results):
            return CheckVerdict.NOT_CONFORMING
        return CheckVerdict.CONFORMING if self.calls_seen else CheckVerdict.INCONCLUSIVE


def apply_rules(record: ProbeRecord) -> CheckReport:
    """Apply every rule to the record, in the order of the tables."""
    results = [] if record.card.missing else [rule.judge(record.card) for rule in CARD_RULES]
    subjects = subjects_of(record)
    for rule in TRAFFIC_RULES:
        results += [rule.judge(subject, subject.conversation.interface) for subject in subjects]
    return CheckReport(record, tuple(results), any(subject.messages_with_calls for subject in subjects))


LEAST_LENGTH = 6
"""Minimum length of a credential; shorter words also occur in ordinary text."""


def mask_credentials(report: CheckReport, header_values: Iterable[str]) -> CheckReport:
    """Returns the report with `***` in place of every credential in these values of request headers."""
    masked: CheckReport = masking(header_values)(report)
    return masked


def masking(header_values: Iterable[str]) -> Callable[[Any], Any]:
    """Returns a function that masks every credential in these values of request headers, at any depth of its argument.

    It copies dictionaries, lists, tuples and dataclasses.
    """
    longest_first = sorted(_credentials_in(header_values), key=len, reverse=True)

    def text(original: str) -> str:
        for credential in longest_first:
            original = _without_prefix_at_end(original.replace(credential, "***"), credential)
        return original

    def value(original: Any, depth: int = WALKED) -> Any:
        if type(original) is str:
            return text(original)
        if isinstance(original, bytes):
            return text(original.decode(errors="replace")).encode()
        if isinstance(original, dict | list) and depth == 0:
            return "***"
        if isinstance(original, dict):
            return {text(str(key)): value(item, depth - 1) for key, item in original.items()}
        if isinstance(original, list | tuple):
            return type(original)(value(item, depth - 1) for item in original)
        if not is_dataclass(original) or isinstance(original, type):
            return original
        return replace(original, **{each.name: value(getattr(original, each.name), depth) for each in fields(original)})

    return value if longest_first else lambda original: original


def _credentials_in(header_values: Iterable[str]) -> frozenset[str]:
    """Returns the strings to mask: each value and each of its words except the scheme, also in their JSON escape."""
    texts = {text for value in header_values for text in (value, *value.split())}
    long = {text for text in texts if len(text) >= LEAST_LENGTH and text.lower() not in ("bearer", "digest")}
    return frozenset(long | {json.dumps(text)[1:-1] for text in long})


def _without_prefix_at_end(text: str, credential: str) -> str:
    """Masks a credential that truncation cut in two: its prefix at the end of `text`."""
    end = text.rstrip("'\"")
    for length in range(len(credential) - 1, LEAST_LENGTH - 1, -1):
        if end.endswith(credential[:length]):
            return f"{end[:-length]}***{text[len(end) :]}"
    return text
