"""Which observations are of one call: the same id, one above the other, or the same moment seen from elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..canonical import value_key
from ..models import Finding, Severity
from .conventions import roles_of
from .kinds import SpanRole
from .model import Span
from .observations import Observation, same_tool


class Lineage:
    """The parents of spans. Spans may miss, and parents may even form a circle."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = {span.key: span for span in spans}

    def add(self, span: Span) -> None:
        self._spans[span.key] = span

    def ancestors(self, key: tuple[str, str]) -> Iterator[Span]:
        """The spans above `key`, nearest first, as far as they are at hand."""
        passed = {key}
        span = self._spans.get(key)
        while span is not None and span.parent_span_id:
            above = span.trace_id, span.parent_span_id
            if above in passed:
                return
            passed.add(above)
            span = self._spans.get(above)
            if span is not None:
                yield span

    def related(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        """Whether one of two spans is above the other."""
        return any(span.key == one for span in self.ancestors(other)) or any(
            span.key == other for span in self.ancestors(one)
        )


class ObservationGroup:
    """One call's observations, outermost first, the agent's before those of transports (other hosts and clocks)."""

    __slots__ = ("observations",)

    def __init__(self, observation: Observation) -> None:
        self.observations = [observation]

    @property
    def call_id(self) -> str:
        return next((observation.call_id for observation in self.observations if observation.call_id), "")

    @property
    def arguments(self) -> dict[str, Any] | None:
        return next(
            (observation.arguments for observation in self.observations if observation.arguments is not None), None
        )

    @property
    def transport(self) -> bool:
        """Whether nothing but transports saw the call: no agent under its own name for the tool."""
        return all(observation.transport for observation in self.observations)

    @property
    def first(self) -> Observation:
        return self.observations[0]

    @property
    def start_ns(self) -> int:
        return self.first.span.start_ns

    @property
    def end_ns(self) -> int:
        return max(observation.span.end_ns for observation in self.observations)

    @property
    def vantages(self) -> frozenset[str]:
        return frozenset(observation.vantage for observation in self.observations)

    def absorb(self, other: ObservationGroup) -> None:
        self.observations = sorted(
            self.observations + other.observations,
            key=lambda observation: (observation.transport, *observation_order(observation)),
        )


def group(observations: Iterable[Observation], lineage: Lineage) -> tuple[list[ObservationGroup], list[Finding]]:
    """The calls behind the observations, by start, each observation in exactly one; and ids that two tools share.

    Two observations are one call where they share id and tool (but for calls of different arguments, one after the
    other, of a model that numbers its ids again in each response); where one is the nearest tool span above the other,
    for the same tool, without contradiction in id or arguments and with no agent in between; or where they come
    from different vantages, with the same name and arguments, and overlap in time, one with one, in order.
    Never by name and arguments alone: an agent does repeat its calls. Unknown arguments contradict nothing.
    """
    groups = {
        observation.span.key: ObservationGroup(observation)
        for observation in sorted(observations, key=observation_order)
    }
    findings = _join_ids(groups)
    _join_nested(groups, lineage)
    distinct = _distinct(groups.values())
    for with_arguments in (True, False):
        distinct = _join_overlapping(distinct, with_arguments=with_arguments)
    return distinct, findings


def observation_order(observation: Observation) -> tuple[int, int, str, str]:
    """By start; of two that start together the longer is the outer one."""
    span = observation.span
    return span.start_ns, -span.end_ns, span.trace_id, span.span_id


def _join(groups: dict[tuple[str, str], ObservationGroup], outer: ObservationGroup, inner: ObservationGroup) -> None:
    if outer is not inner:
        outer.absorb(inner)
        for observation in inner.observations:
            groups[observation.span.key] = outer


def _join_ids(groups: dict[tuple[str, str], ObservationGroup]) -> list[Finding]:
    by_id: dict[str, list[ObservationGroup]] = defaultdict(list)
    findings = []
    for candidate in list(groups.values()):
        if not candidate.call_id:
            continue
        same_id = by_id[candidate.call_id]
        same_tool = [known for known in same_id if _same_tool(known.first, candidate.first)]
        known = next((known for known in same_tool if _agree(known, candidate) or _overlap(known, candidate)), None)
        if known is not None:
            _join(groups, known, candidate)
            continue
        if same_tool:
            message = f"call id {candidate.call_id!r} is on calls of {candidate.first.name!r} with different arguments"
            findings.append(Finding("id_reused", f"{message}; each is kept", Severity.WARNING, "traces"))
        elif same_id:
            names = f"{same_id[0].first.name!r} and {candidate.first.name!r}"
            message = f"call id {candidate.call_id!r} is on spans of {names}; both are kept"
            findings.append(Finding("id_conflict", message, Severity.WARNING, "traces"))
        same_id.append(candidate)
    return findings


def _join_nested(groups: dict[tuple[str, str], ObservationGroup], lineage: Lineage) -> None:
    if len(groups) < 2:
        return
    for inner in [observation for joined in _distinct(groups.values()) for observation in joined.observations]:
        for span in lineage.ancestors(inner.span.key):
            outer = groups.get(span.key)
            if outer is not None:
                above = next(observation for observation in outer.observations if observation.span.key == span.key)
                if _same_tool(above, inner) and _agree(outer, groups[inner.span.key]):
                    _join(groups, outer, groups[inner.span.key])
                break
            if _is_sub_agent(span):
                break


def _join_overlapping(groups: Sequence[ObservationGroup], *, with_arguments: bool) -> list[ObservationGroup]:
    """Join across vantages. With arguments: where both are known and equal; without: where either is unknown."""
    buckets: dict[tuple[str, Hashable], list[ObservationGroup]] = defaultdict(list)
    rest: list[ObservationGroup] = []
    for candidate in groups:
        if not with_arguments:
            buckets[candidate.first.name, ""].append(candidate)
        elif candidate.arguments is not None:
            buckets[candidate.first.name, value_key(candidate.arguments)].append(candidate)
        else:
            rest.append(candidate)
    for bucket in buckets.values():
        rest += _join_lanes(bucket) if len(bucket) > 1 else bucket
    return sorted(rest, key=_group_order)


def _join_lanes(bucket: Sequence[ObservationGroup]) -> list[ObservationGroup]:
    lanes: dict[frozenset[str], list[ObservationGroup]] = defaultdict(list)
    for candidate in bucket:
        lanes[candidate.vantages].append(candidate)
    joined: list[ObservationGroup] = []
    for vantages in sorted(lanes, key=sorted):
        partners = [known for known in joined if known.vantages.isdisjoint(vantages)]
        joined += _pair_off(partners, lanes[vantages])
        joined.sort(key=_group_order)
    return joined


def _pair_off(partners: Sequence[ObservationGroup], lane: Sequence[ObservationGroup]) -> list[ObservationGroup]:
    """Join each group of `lane` with the next partner it overlaps, both by start; those that found none."""
    left: list[ObservationGroup] = []
    waiting = iter(partners)
    partner = next(waiting, None)
    for candidate in lane:
        while partner is not None and partner.end_ns < candidate.start_ns:
            partner = next(waiting, None)
        if partner is not None and _overlap(partner, candidate) and _agree(partner, candidate, exactly=True):
            partner.absorb(candidate)
            partner = next(waiting, None)
        else:
            left.append(candidate)
    return left


def _overlap(one: ObservationGroup, other: ObservationGroup) -> bool:
    return 0 < one.start_ns <= other.end_ns and 0 < other.start_ns <= one.end_ns


def _agree(one: ObservationGroup, other: ObservationGroup, *, exactly: bool = False) -> bool:
    """Whether neither id nor arguments say that these are two calls.

    Unless `exactly`, one may have more arguments: an inner layer may have filled in defaults.
    """
    if one.call_id and other.call_id and one.call_id != other.call_id:
        return False
    if one.arguments is None or other.arguments is None:
        return True
    if exactly:
        return value_key(one.arguments) == value_key(other.arguments)
    return contained(one.arguments, other.arguments) or contained(other.arguments, one.arguments)


def contained(few: Mapping[str, Any], many: Mapping[str, Any]) -> bool:
    """Whether `many` has every member of `few`, with an equal value or an object that contains that of `few`."""
    return few.keys() <= many.keys() and all(
        contained(value, many[key])
        if isinstance(value, Mapping) and isinstance(many[key], Mapping)
        else value_key(value) == value_key(many[key])
        for key, value in few.items()
    )


def _same_tool(one: Observation, other: Observation) -> bool:
    return same_tool(one.name, other.name, prefixed=one.transport or other.transport)


def _is_sub_agent(span: Span) -> bool:
    """Whether a call below it is another agent's, not the one above it seen again."""
    return not {SpanRole.AGENT, SpanRole.MODEL}.isdisjoint(roles_of(span).values())


def _distinct(groups: Iterable[ObservationGroup]) -> list[ObservationGroup]:
    return sorted({id(candidate): candidate for candidate in groups}.values(), key=_group_order)


def _group_order(candidate: ObservationGroup) -> tuple[int, int, str, str]:
    return observation_order(candidate.first)
