"""Tool calls that an installed arksim's own `ArksimTracingProcessor` records in an agent."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from a2a_tool_capture.connector import recorder


class TraceReceiver:
    """Has the methods of arksim's trace receiver that the processor calls; records the calls of the current turn."""

    def submit_tool_calls(self, conversation_id: str, turn_id: int, tool_calls: Iterable[Any]) -> None:
        for call in tool_calls:
            recorder.record(call.name, call.arguments, id=call.id, result=call.result, error=call.error)


def begin_turn(chat_id: str, turn_id: int) -> None:
    """Set the turn of this context for arksim, if an agent has imported its tracing."""
    tracing = sys.modules.get("arksim.tracing.context")
    if tracing is not None:
        tracing.trace_conversation_id.set(chat_id)
        tracing.trace_turn_id.set(turn_id)
        tracing.trace_receiver_ref.set(TraceReceiver())
