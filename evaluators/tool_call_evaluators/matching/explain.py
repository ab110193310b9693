"""Explains how actual calls differ from expected ones: a pairing with its near misses, or a list of changes.

Positions count from 1, in reasons and in details alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal

from a2a_tool_capture.models import ToolCall

from ..grouping import grouped
from ..model import CallsUnseenError, ExpectedCall
from ..texts import counted
from .arguments import ArgumentMatcher, Difference, Matcher, call_differences
from .call_failure import outcome_unknown
from .match_table import match_table
from .overlaps import in_some_order, overlapping_calls
from .pairing import Pair, longest_common_subsequence, maximum_matching
from .placeholders import readable

MAX_NEAR_MISSES = 20
"""Maximum number of missing calls for which a near miss is searched ..."""
MAX_COMPARED = 10
"""... among this many calls of the same tool: explaining must not cost more than scoring."""


@dataclass(frozen=True)
class Pairing:
    """The pairs of expected and actual calls; `pairs` holds indices (expected, actual).

    `among`: the indices of the calls that count, on each side; None: all do.
    """

    expected: Sequence[ExpectedCall]
    actual: Sequence[ToolCall]
    pairs: Sequence[tuple[int, int]]
    matcher: Matcher
    among: tuple[Sequence[int], Sequence[int]] | None = None

    @classmethod
    def of(cls, expected: Sequence[ExpectedCall], actual: Sequence[ToolCall], matcher: Matcher, pair: Pair) -> Pairing:
        """The pairs that `pair` picks."""
        return cls(expected, actual, pair(match_table(expected, actual, matcher), len(actual)), matcher)

    def placed(
        self, expected: Sequence[ExpectedCall], actual: Sequence[ToolCall], lefts: Sequence[int], rights: Sequence[int]
    ) -> Pairing:
        """The same pairs among all calls, given the indices there of those that are compared."""
        pairs = [(lefts[left], rights[right]) for left, right in self.pairs]
        return Pairing(expected, actual, pairs, self.matcher, (lefts, rights))

    @property
    def _indices(self) -> tuple[Sequence[int], Sequence[int]]:
        return self.among or (range(len(self.expected)), range(len(self.actual)))

    @property
    def missing(self) -> list[int]:
        """Indices of the expected calls without a pair."""
        paired = {left for left, _ in self.pairs}
        return [index for index in self._indices[0] if index not in paired]

    @property
    def extra(self) -> list[int]:
        """Indices of the actual calls without a pair."""
        paired = {right for _, right in self.pairs}
        return [index for index in self._indices[1] if index not in paired]

    @cached_property
    def near_misses(self) -> list[tuple[int, int, list[Difference]]]:
        """The first missing calls with their `nearest_calls`."""
        found = nearest_calls(self.expected, self.actual, self.missing, self.extra, self.matcher)
        return list(islice(found, MAX_NEAR_MISSES))

    def _refuse_unknown(self, several: bool) -> None:
        """Raise CallsUnseenError as `problems` says."""
        lefts = self._indices[0] if several else self.missing
        by_name = grouped((self.expected[left].name, left) for left in lefts)
        for right in self.extra:
            call = self.actual[right]
            for left in by_name.get(call.name, ()) if call.arguments is None or outcome_unknown(call) else ():
                differences = call_differences(self.expected[left], call, self.matcher)
                if differences and all(difference.problem == "unknown" for difference in differences):
                    part = differences[0].part
                    raise CallsUnseenError(f"the {part} of {call_name(right, self.actual)}: not seen")

    def details(self) -> dict[str, Any]:
        """`matched`, `missing`, `extra` and `near_misses` as JSON data with positions from 1."""
        return {
            "matched": [
                {"name": self.expected[left].name, "expected": left + 1, "actual": right + 1}
                for left, right in self.pairs
            ],
            "missing": [{"name": self.expected[i].name, "expected": i + 1} for i in self.missing],
            "extra": [{"name": self.actual[i].name, "actual": i + 1} for i in self.extra],
            "near_misses": [
                {
                    "name": self.expected[left].name,
                    "expected": left + 1,
                    "actual": right + 1,
                    "differences": [difference.to_dict() for difference in differences],
                }
                for left, right, differences in self.near_misses
            ],
        }

    def problems(self, *, missing: bool = True, extra: bool = True, several: bool = False) -> list[str]:
        """A sentence fragment for each call that is not as expected.

        `missing`: whether expected calls without a near miss are a problem. `extra`: whether extra calls without one
        are. `several`: one expected call may have several pairs. Raises CallsUnseenError if a call without a pair may
        be an expected one, but for content that is not seen.
        """
        self._refuse_unknown(several)
        out, named = [], set[int]()
        near = {left: (right, differences) for left, right, differences in self.near_misses}
        for index in self.missing:
            if index in near:
                right, differences = near[index]
                named.add(right)
                out.append(f"{call_name(right, self.actual)} {_verdict(index, differences)}")
            elif missing:
                out.append(f"expected {call_name(index, self.expected)} is missing")
        if extra:
            left = [index for index in self.extra if index not in named]
            out += [f"{call_name(index, self.actual)} was not expected" for index in left]
        return out


def expected_call_text(call: ExpectedCall) -> str:
    """`delete_*`, or `refund(currency: "USD" or "GBP")`."""
    if call.arguments is None:
        return call.name
    return f"{call.name}({', '.join(f'{key}: {readable(value)}' for key, value in call.arguments.items())})"


def nearest_calls(
    expected: Sequence[ExpectedCall],
    actual: Sequence[ToolCall],
    missing: Iterable[int],
    extra: Iterable[int],
    matcher: Matcher,
) -> Iterator[tuple[int, int, list[Difference]]]:
    """For each missing call, in order, the least different extra call of the same tool, which is used once."""
    left_over = grouped((actual[index].name, index) for index in extra)
    for wanted in missing:
        candidates = left_over.get(expected[wanted].name, [])
        compared = [
            (call_differences(expected[wanted], actual[index], matcher), index) for index in candidates[:MAX_COMPARED]
        ]
        if compared:
            differences, nearest = min(compared, key=lambda item: (len(item[0]), item[1]))
            candidates.remove(nearest)
            yield wanted, nearest, differences


def call_name(index: int, calls: Sequence[ToolCall | ExpectedCall]) -> str:
    """The name of a call in a sentence: `call 2 (refund)`."""
    return f"call {index + 1} ({calls[index].name})"


def matched_text(matched: int, expected: int, actual: int, *, of_made: bool) -> str:
    """The number of matched calls, out of the actual (`of_made`) or the expected ones: the fraction is the score."""
    if of_made:
        of = f"{matched} of {counted(actual, 'call')} matched" if actual else "no call made"
        return f"{of}, {expected} expected"
    of = f"{matched} of {counted(expected, 'expected call')} matched" if expected else "no call expected"
    return f"{of}, {counted(actual, 'call')} made"


def unless_all(score: float, matched: float) -> str:
    """A note after a fraction that is not the score, because the score is all or nothing."""
    return " (all or nothing)" if matched and not score else ""


def _verdict(expected_index: int, differences: Sequence[Difference]) -> str:
    if not differences:
        return f"is expected call {expected_index + 1} out of order"
    more = f" and {counted(len(differences) - 1, 'more difference')}" if len(differences) > 1 else ""
    return f"differs from expected call {expected_index + 1}: {differences[0]}{more}"


ChangeKind = Literal["same", "moved", "changed", "removed", "added", "unknown", "ignored"]

MAX_DIFFED = 300
"""Maximum number of calls compared per side; the time grows with the product of both numbers."""


@dataclass(frozen=True, slots=True)
class CallChange:
    """One line of the difference. `left` and `right` are indices, None on the side without the call.

    `moved`: an equal call in another position. `changed`: a call of the same tool with different arguments, or another
    result or error than expected, listed in `differences`. `unknown`: expected and not among the known
    calls, which are not all. `ignored`: of a tool whose calls do not count. Only reports use these two.
    """

    kind: ChangeKind
    left: int | None
    right: int | None
    differences: tuple[Difference, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON form without None and empty values."""
        out: dict[str, Any] = {"kind": self.kind}
        if self.left is not None:
            out["left"] = self.left
        if self.right is not None:
            out["right"] = self.right
        if self.differences:
            out["differences"] = [difference.to_dict() for difference in self.differences]
        return out


def diff_calls(
    left: Sequence[ExpectedCall], right: Sequence[ToolCall], matcher: Matcher | None = None
) -> list[CallChange]:
    """Every call of both sides once, in the order of the right side; removed calls follow their predecessor.

    Equal calls in order are `same`, as many as possible (any order, where calls overlap in time); then equal calls out
    of order are `moved`; then calls of one tool are paired as `changed`, each with the one that differs least; the rest
    are removed or added. Only the first `MAX_DIFFED` calls of each side are compared.
    """
    matcher = matcher or ArgumentMatcher()
    left, right = left[:MAX_DIFFED], right[:MAX_DIFFED]
    table = match_table(left, right, matcher)
    in_order = in_some_order(longest_common_subsequence, overlapping_calls(right))
    changes = [CallChange("same", *pair) for pair in in_order(table, len(right))]
    free_left, free_right = _free(len(left), len(right), changes)
    unused = sum(1 << j for j in free_right)
    rest = [table[i] & unused for i in free_left]
    changes += [CallChange("moved", free_left[i], j) for i, j in maximum_matching(rest, len(right))]
    free_left, free_right = _free(len(left), len(right), changes)
    nearest = nearest_calls(left, right, free_left, free_right, matcher)
    changes += [CallChange("changed", i, j, tuple(differences)) for i, j, differences in nearest]
    free_left, free_right = _free(len(left), len(right), changes)
    changes += [CallChange("removed", i, None) for i in free_left]
    changes += [CallChange("added", None, j) for j in free_right]
    return _in_order(changes)


def _free(left: int, right: int, changes: Iterable[CallChange]) -> tuple[list[int], list[int]]:
    """The indices of both sides that are in no change yet."""
    used_left = {change.left for change in changes}
    used_right = {change.right for change in changes}
    return [i for i in range(left) if i not in used_left], [j for j in range(right) if j not in used_right]


def _in_order(changes: Sequence[CallChange]) -> list[CallChange]:
    place = {change.left: change.right for change in changes if change.left is not None and change.right is not None}

    def position(change: CallChange) -> tuple[int, int, int]:
        if change.right is not None:
            return change.right, 0, 0
        left = change.left or 0
        before = [place[i] for i in range(left) if i in place]
        return before[-1] if before else -1, 1, left

    return sorted(changes, key=position)
