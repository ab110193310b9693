"""`tool_error`: the share of calls that succeeded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a2a_tool_capture.models import ToolCall

from ..evaluator import Measurement, SyncEvaluator
from ..matching.call_failure import outcome_unknown, why_failed
from ..matching.explain import call_name
from ..matching.patterns import compiled_pattern, found_in
from ..model import CallsUnseenError, EvalCase
from ..options import OptionError
from ..registry import register
from .comparing import without_calls


@register
class ToolError(SyncEvaluator):
    """The share of calls that succeeded; 1 without calls.

    A call failed if its error is not blank; if its result is null or blank; if its result is a JSON object whose
    `error` is not null or whose `isError` is true, as in MCP 2025-06-18; or if `error_detector` finds an error in the
    result. A call that only a trace shows, without its result and without an error, does not count; if no call counts,
    the result is skipped.

    Details: `failed`, a list of `{position, name, reason}`; `unknown`, the positions that do not count. Source:
    Dokimos.

    Example:

        evaluators:
          - tool_error: {error_detector: "HTTP 5[0-9][0-9]", threshold: 0.9}
    """

    reads_calls = True

    error_detector: str | Callable[[str], bool] | None = None
    """A regular expression: a result in which it is found is an error. In Python also a function of the result."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.error_detector, str):
            try:
                compiled_pattern(self.error_detector)
            except ValueError as error:
                raise OptionError(f"{self.name}: option error_detector: {error}", "error_detector") from None

    def measure(self, case: EvalCase) -> Measurement:
        calls = case.tool_calls
        unknown: list[int] = []
        failed: list[dict[str, Any]] = []
        problems: list[str] = []
        for index, call in enumerate(calls):
            if call.result is None and outcome_unknown(call):
                unknown.append(index + 1)
            elif why := why_failed(call.error, call.result) or self._detected(call):
                failed.append({"position": index + 1, "name": call.name, "reason": why})
                problems.append(f"{call_name(index, calls)}: {why}")
        judged = len(calls) - len(unknown)
        if unknown and not judged:
            raise CallsUnseenError("the results of the calls: not seen")
        details: dict[str, Any] = {"failed": failed}
        if unknown:
            details["unknown"] = unknown
        return Measurement.share(
            judged - len(failed), judged, "call", "succeeded", problems, details | without_calls(case.tool_calls)
        )

    def _detected(self, call: ToolCall) -> str:
        """Why `call` counts as failed by the option; empty if it does not."""
        detector = self.error_detector
        if isinstance(detector, str) and found_in(detector, call.result or ""):
            return f"the result matches {detector!r}"
        if callable(detector) and detector(call.result or ""):
            return "error_detector returned true"
        return ""
