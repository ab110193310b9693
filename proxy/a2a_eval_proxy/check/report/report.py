"""Applies all rules to a record. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..probe.record import ProbeRecord
from ..rules.base import CheckVerdict, RuleResult, RuleStatus, Subject
from ..rules.card import CARD_RULES
from ..rules.selectors import messages_with_calls
from ..rules.traffic import TRAFFIC_RULES


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A finished check: the record, and the result of each rule for the card and for each interface."""

    record: ProbeRecord
    results: tuple[RuleResult, ...]
    calls_seen: bool
    """Whether any answer to a request that activates version 1 shows calls."""

    @property
    def verdict(self) -> CheckVerdict:
        if any(result.status is RuleStatus.FAILED for result in self.results):
            return CheckVerdict.NOT_CONFORMING
        return CheckVerdict.CONFORMING if self.calls_seen else CheckVerdict.INCONCLUSIVE


def apply_rules(record: ProbeRecord) -> CheckReport:
    """Apply every rule to the record, in the order of the tables."""
    results = [RuleResult(rule, None, rule.test(record)) for rule in CARD_RULES]
    subjects = [Subject(conversation, record) for conversation in record.conversations]
    for rule in TRAFFIC_RULES:
        results += [RuleResult(rule, subject.conversation.interface, rule.test(subject)) for subject in subjects]
    return CheckReport(record, tuple(results), any(messages_with_calls(subject) for subject in subjects))
