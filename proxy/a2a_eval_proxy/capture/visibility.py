"""Whether the tool calls of an agent can be seen at all: without that, no call does not mean that none was made."""

from __future__ import annotations

import logging
from collections.abc import Callable

from a2a_tool_capture import Finding, Severity
from tool_call_evaluators.turn_health import NO_CAPTURE, turn_failure_of

from ..turn import Turn

logger = logging.getLogger(__name__)

_NOT_DECLARED = "the agent's card does not declare the tool-call-capture extension"
_NOT_ASKED = "nobody asks the agent for the tool-call-capture extension (negotiate: never)"
NOT_ASKED = "not_asked"
"""Finding of a turn in which the proxy kept from asking the agent for the extension."""
_NOT_ASKED_HERE = "the agent was not asked for the tool-call-capture extension in this request"
_NO_OTHER_WAY = "no tool call was seen in another way (traces, a dialect of its framework)"


class CallVisibility:
    """Gives a closed turn without calls the finding `no_capture` where nothing shows that its calls would be seen.

    They would be where the agent declares the extension and was asked for it, where it has sent traces (`traces`),
    where the operator named its dialect (`dialects`), and from the first tool call on that was seen of it. A turn
    that failed says enough itself. `asks`: whoever passes the message on asks for the extension where it is declared.
    """

    def __init__(self, *, asks: bool, dialects: bool, traces: Callable[[], bool] = lambda: False) -> None:
        self._asks = asks
        self._traces = traces
        self._shown = dialects
        self._warned = False

    def judge(self, turn: Turn) -> None:
        """Add the finding to `turn` where it belongs there. The first one is logged."""
        if turn.tool_calls:
            self._shown = True
        kept_from_asking = any(finding.code == NOT_ASKED for finding in turn.findings)
        asked = self._asks or turn.capture.requested_by_client
        told = not kept_from_asking and (self._shown or (turn.capture.declared and asked))
        if turn.tool_calls or told or self._traces():
            return
        if turn_failure_of(turn.state, "", turn.findings) is not None:
            return
        reason = _NOT_ASKED_HERE if kept_from_asking else _NOT_ASKED if turn.capture.declared else _NOT_DECLARED
        message = f"{reason}, and {_NO_OTHER_WAY}"
        turn.findings.append(Finding(NO_CAPTURE, message, Severity.WARNING, "capture"))
        if not self._warned:
            self._warned = True
            logger.warning("%s: evaluators of tool calls skip turns without calls", message)
