"""Applies all rules to a record. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from ..probe.record import ProbeRecord
from ..rules.base import CheckVerdict, RuleResult, RuleStatus
from ..rules.card import CARD_RULES
from ..rules.grpc import GRPC_RULES
from ..rules.push import PUSH_RULES
from ..rules.selectors import subjects_of
from ..rules.traffic import TRAFFIC_RULES


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
    for grpc_rule in GRPC_RULES:
        results += [grpc_rule.judge(seen, seen.interface) for seen in record.grpc]
    for push_rule in PUSH_RULES:
        results += [push_rule.judge(webhooks, webhooks.interface) for webhooks in record.push]
    return CheckReport(record, tuple(results), any(subject.messages_with_calls for subject in subjects))
