"""The differences between expected and actual tool calls: added, removed, moved, changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from a2a_tool_capture.models import ToolCall

from ..model import ExpectedCall
from .arguments import ArgumentMatcher, Difference, Matcher
from .explain import nearest_calls
from .match_table import match_table
from .pairing import longest_common_subsequence, maximum_matching

ChangeKind = Literal["same", "moved", "changed", "removed", "added", "unknown"]

MAX_DIFFED = 300
"""Maximum number of calls compared per side; the time grows with the product of both numbers."""


@dataclass(frozen=True, slots=True)
class CallChange:
    """One line of the difference. `left` and `right` are indices, None on the side without the call.

    `moved`: an equal call in another position. `changed`: a call of the same tool with different arguments, or another
    result or error than expected, listed in `differences`. `unknown`: expected and not among the known
    calls, which are not all; only reports use it.
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

    Equal calls in order are `same`, as many as possible; then equal calls out of order are `moved`; then calls of
    one tool are paired as `changed`, each with the one that differs least; the rest are removed or added. Only the
    first `MAX_DIFFED` calls of each side are compared.
    """
    matcher = matcher or ArgumentMatcher()
    left, right = left[:MAX_DIFFED], right[:MAX_DIFFED]
    table = match_table(left, right, matcher)
    changes = [CallChange("same", *pair) for pair in longest_common_subsequence(table, len(right))]
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
