"""Expected and made calls of a turn, side by side, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from a2a_tool_capture.models import ToolCall
from tool_call_evaluators.matching.arguments import Matcher, call_matches
from tool_call_evaluators.matching.explain import MAX_DIFFED, diff_calls
from tool_call_evaluators.matching.placeholders import by_meaning, decided_in
from tool_call_evaluators.metrics.tool_trajectory import TrajectoryMode
from tool_call_evaluators.model import ExpectedCall
from tool_call_evaluators.report.templating import plain_lines

from .tables import TEMPLATES


def diff_lines(
    expected: Sequence[ExpectedCall],
    made: Sequence[ToolCall],
    mode: TrajectoryMode,
    matcher: Matcher,
    details: Iterable[Mapping[str, Any]] = (),
) -> list[str]:
    """Every call of both sides on a line, as `mode` sees them; `details` are those of results.

    `-` expected and not made, `+` made and not expected, `~` made, and what differs from the expected call, `>` made,
    but not in its place; a blank where nothing is wrong. Only the first `MAX_DIFFED` calls of a side are listed.
    """
    with by_meaning(decided_in(details)):
        return plain_lines(
            "call_differences.txt",
            TEMPLATES,
            expected=expected,
            made=made,
            mode=mode,
            changes=diff_calls(expected, made, matcher),
            serves=lambda call: any(call_matches(wanted, call, matcher) for wanted in expected),
            left_out=max(len(expected), len(made)) - MAX_DIFFED,
        )
