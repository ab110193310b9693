"""`tool_error`: the share of calls that succeeded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from a2a_tool_capture.models import ToolCall

from ..evaluator import Measurement, SyncEvaluator
from ..matching.call_failure import why_failed
from ..matching.explain import call_name, counted, sentence
from ..matching.patterns import compiled_pattern, found_in
from ..model import EvalCase
from ..options import OptionError
from ..registry import register
from .case_parts import without_calls


@register
@dataclass(frozen=True, kw_only=True)
class ToolError(SyncEvaluator):
    """The fraction of calls that succeeded; 1 without calls.

    A call failed if it has an error that is not blank; or its result is null or blank; or its result is
    a JSON object whose top-level `error` is present and not null, or whose `isError` is true, as in a result of an MCP
    tool (MCP 2025-06-18, CallToolResult); or `error_detector`, a regular expression
    or a function, finds an error in its result; or `is_error`, a function of the ToolCall, returns true.
    Details: `failed`, a list of `{position, name, reason}`.
    """

    name: ClassVar[str] = "tool_error"
    reads_calls: ClassVar[bool] = True

    is_error: Callable[[ToolCall], bool] | None = None
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
        failed = [(index, why) for index, call in enumerate(calls) if (why := self._why_failed(call))]
        if not failed:
            details = {"failed": []} | without_calls(case)
            return Measurement(1.0, f"{len(calls)} of {counted(len(calls), 'call')} succeeded.", details)
        succeeded = len(calls) - len(failed)
        return Measurement(
            succeeded / len(calls),
            sentence(
                f"{succeeded} of {counted(len(calls), 'call')} succeeded",
                [f"{call_name(index, calls)}: {why}" for index, why in failed],
            ),
            {"failed": [{"position": index + 1, "name": calls[index].name, "reason": why} for index, why in failed]},
        )

    def _why_failed(self, call: ToolCall) -> str:
        """Why `call` counts as failed; empty if it succeeded."""
        if why := why_failed(call.error, call.result):
            return why
        detector = self.error_detector
        if isinstance(detector, str) and found_in(detector, call.result or ""):
            return f"the result matches {detector!r}"
        if callable(detector) and detector(call.result or ""):
            return "error_detector returned true"
        if self.is_error is not None and self.is_error(call):
            return "is_error returned true"
        return ""
