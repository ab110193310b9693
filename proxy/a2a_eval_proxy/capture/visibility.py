"""Whether the tool calls of an agent are visible at all: only then does no call mean that the agent made none."""

from __future__ import annotations

import logging
from collections.abc import Callable

from a2a_tool_capture import Finding, Severity
from tool_call_evaluators.turn_health import NO_CAPTURE, UNREAD_REPORTS, turn_failure_of

from ..turn import Turn
from .dialect_hints import DIALECT_NOT_READ

logger = logging.getLogger(__name__)

_NOT_DECLARED = "the agent's card does not declare the tool-call-capture extension"
_NOT_ASKED = "no request asks the agent for the tool-call-capture extension (negotiate: never)"
NOT_ASKED = "not_asked"
"""The finding of a turn for which the proxy did not ask the agent for the extension."""
_NOT_ASKED_HERE = "the agent was not asked for the tool-call-capture extension in this request"
_DIALECT = "the answer has parts that are marked as tool calls, in a dialect that is not read"
_NO_OTHER_WAY = "no other source (traces, a dialect of its framework) shows tool calls"


class CallVisibility:
    """Adds the finding `no_capture` to a closed turn without calls if its calls would not have been visible.

    They are visible if the agent declares the extension and was asked for it, if it has sent traces (`traces`), if the
    operator named its dialect (`dialects`), and after any turn of the agent that has a tool call. They are not
    if the answer has parts of a dialect that is not read. A failed turn, and one with reports of calls that were not
    read, do not get the finding. `asks`: requests ask for the extension where the agent declares it.
    `logs`: the first finding is logged.
    """

    def __init__(
        self, *, asks: bool, dialects: bool, traces: Callable[[], bool] = lambda: False, logs: bool = True
    ) -> None:
        self._asks = asks
        self._traces = traces
        self._calls_shown = dialects
        self._warned = not logs

    def judge(self, turn: Turn) -> None:
        """Add the finding to `turn` where it applies."""
        if turn.tool_calls:
            self._calls_shown = True
            return
        codes = {finding.code for finding in turn.findings}
        prevented, unread = NOT_ASKED in codes, DIALECT_NOT_READ in codes
        asked = self._asks or turn.capture.requested_by_client
        visible = not prevented and (self._calls_shown or (turn.capture.declared and asked and not unread))
        if visible or self._traces() or not codes.isdisjoint(UNREAD_REPORTS):
            return
        if turn_failure_of(turn.state, "", turn.findings) is not None:
            return
        reason = _NOT_ASKED if turn.capture.declared else _NOT_DECLARED
        if prevented or unread:
            reason = _NOT_ASKED_HERE if prevented else _DIALECT
        message = f"{reason}, and {_NO_OTHER_WAY}"
        turn.findings.append(Finding(NO_CAPTURE, message, Severity.WARNING, "capture"))
        if not self._warned:
            self._warned = True
            logger.warning("%s: evaluators of tool calls skip turns without calls", message)
