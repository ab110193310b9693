"""Whether the tool calls of an agent would have been captured: only then does no call mean that the agent made none."""

from __future__ import annotations

import logging
from collections.abc import Callable

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.dialect import DIALECT_NOT_READ
from a2a_tool_capture.models import calls_unknown_by
from tool_call_evaluators.visibility import NO_CAPTURE, turn_failure_of

from ..turn import Turn

logger = logging.getLogger(__name__)

_NOT_DECLARED = "the agent's card does not declare the tool-call-capture extension"
_NOT_ASKED = "no request asks the agent for the tool-call-capture extension (negotiate: never)"
NOT_ASKED = "not_asked"
"""The finding of a turn for which the proxy did not ask the agent for the extension."""
_NOT_ASKED_HERE = "the agent was not asked for the tool-call-capture extension in this request"
_DIALECT = "the answer has parts that are marked as tool calls, in a dialect that is not read"
_NO_OTHER_WAY = "no other source (traces, a dialect of its framework) shows tool calls"


class CallVisibility:
    """States for a closed turn without calls what would have shown them, else adds the finding `no_capture`.

    That is the extension, if the agent declares it, was asked for it, and its answer has no parts of a dialect that is
    not read; the dialect that the operator named (`dialects`); or the agent's earlier turns, if one had calls that was
    asked no more than this one. What traces show is stated when they are merged. A failed turn, and one with reports of
    calls that were not read, do not get the finding.

    `negotiate` as in the settings. The first finding is logged if `logs` returns true.
    """

    def __init__(self, *, negotiate: str, dialects: bool, logs: Callable[[], bool] = lambda: True) -> None:
        self._negotiate = negotiate
        self._dialects = dialects
        self._logs = logs
        self._asked_and_shown: set[bool] = set()
        """Whether the agent was asked in turns that had calls."""
        self._warned = False

    def judge(self, turn: Turn) -> None:
        """Complete `turn`."""
        codes = {finding.code for finding in turn.findings} if turn.findings else frozenset()
        declared = turn.capture.declared
        asks = self._negotiate == "always" or (self._negotiate == "declared" and declared)
        asked = NOT_ASKED not in codes and (asks or turn.capture.requested_by_client)
        if turn.tool_calls:
            self._asked_and_shown.add(asked)
        if self._dialects:
            turn.shown_by = "dialect"
        elif declared and asked and DIALECT_NOT_READ not in codes:
            turn.shown_by = "extension"
        elif not self._asked_and_shown.isdisjoint({asked, False}):
            turn.shown_by = "earlier_calls"
        elif not turn.tool_calls and calls_unknown_by(turn.findings) is None and not _failed(turn):
            reason = _NOT_ASKED if declared else _NOT_DECLARED
            if NOT_ASKED in codes or DIALECT_NOT_READ in codes:
                reason = _NOT_ASKED_HERE if NOT_ASKED in codes else _DIALECT
            message = f"{reason}, and {_NO_OTHER_WAY}"
            turn.findings.append(Finding(NO_CAPTURE, message, Severity.WARNING, "capture"))
            if not self._warned and self._logs():
                self._warned = True
                of_agent = f"agent {turn.agent_name}: " if turn.agent_name else ""
                logger.warning("%s%s: evaluators of tool calls skip turns without calls", of_agent, message)


def _failed(turn: Turn) -> bool:
    return turn_failure_of(turn.state, "", turn.findings) is not None
