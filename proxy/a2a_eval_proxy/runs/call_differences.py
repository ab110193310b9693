"""Expected and made calls of a turn, side by side, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from a2a_tool_capture.models import ToolCall
from tool_call_evaluators.matching.arguments import Matcher, call_matches
from tool_call_evaluators.matching.explain import MAX_DIFFED, CallChange, diff_calls
from tool_call_evaluators.metrics.tool_trajectory import TrajectoryMode
from tool_call_evaluators.model import ExpectedCall
from tool_call_evaluators.texts import call_text, counted


def diff_lines(
    expected: Sequence[ExpectedCall], made: Sequence[ToolCall], mode: TrajectoryMode, matcher: Matcher
) -> list[str]:
    """Every call of both sides on a line, as `mode` sees them.

    `-` expected and not made, `+` made and not expected, `~` made, and what differs from the expected call, `>` made,
    but not in its place; a blank where nothing is wrong. Only the first `MAX_DIFFED` calls of a side are listed.
    """
    lines = []
    for change in diff_calls(expected, made, matcher):
        if change.kind == "changed" and mode == "within":  # an expected call may serve several times
            change = CallChange("added", None, change.right)
        if change.right is None:
            wrong = mode not in ("subset", "within") and not (mode == "precision" and made)
            lines.append(_line("-", expected[change.left or 0], "not made", wrong))
            continue
        call = made[change.right]
        if change.kind == "added":
            serves = mode == "within" and any(call_matches(wanted, call, matcher) for wanted in expected)
            wrong = mode != "superset" and not (mode == "recall" and expected)
            lines.append(f"  {_text(call)}" if serves else _line("+", call, "not expected", wrong))
        elif change.kind == "changed":
            lines += [f"~ {_text(call)}", *(f"    {difference}" for difference in change.differences)]
        elif change.kind == "moved" and mode in ("strict", "in_order"):
            lines.append(_line(">", call, f"call {change.right + 1}, expected as call {(change.left or 0) + 1}"))
        else:
            lines.append(f"  {_text(call)}")
    left_out = max(len(expected), len(made)) - MAX_DIFFED
    return [*lines, f"  … and {counted(left_out, 'more call')}"] if left_out > 0 else lines


def _line(mark: str, call: ToolCall | ExpectedCall, note: str, wrong: bool = True) -> str:
    return f"{mark} {_text(call)}   ({note})" if wrong else f"  {_text(call)}   ({note}, which is accepted)"


def _text(call: ToolCall | ExpectedCall) -> str:
    return call_text({"name": call.name, "arguments": call.arguments})
