"""All rules over everything that was recorded. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ..probe.record import Record
from ..rules.base import Result, Status, Subject, Verdict
from ..rules.card import CARD_RULES
from ..rules.selectors import messages_with_calls
from ..rules.traffic import TRAFFIC_RULES


@dataclass(frozen=True, slots=True)
class Report:
    """A finished check: what was recorded, what each rule says of the card and of each interface."""

    record: Record
    results: tuple[Result, ...]
    calls_seen: bool
    """Whether any answer that was asked for tool calls had some."""

    @property
    def verdict(self) -> Verdict:
        if any(result.status is Status.FAILED for result in self.results):
            return Verdict.NOT_CONFORMING
        return Verdict.CONFORMING if self.calls_seen else Verdict.INCONCLUSIVE


def judge(record: Record) -> Report:
    """Hold the record against every rule, in the order of the tables."""
    results = [Result(rule, None, rule.test(record)) for rule in CARD_RULES]
    subjects = [Subject(conversation, record) for conversation in record.conversations]
    for rule in TRAFFIC_RULES:
        results += [Result(rule, subject.conversation.interface, rule.test(subject)) for subject in subjects]
    return Report(record, tuple(results), any(messages_with_calls(subject) for subject in subjects))
