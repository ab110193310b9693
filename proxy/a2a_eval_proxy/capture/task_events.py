"""What the v1.0 events of a task say of it: which task, which status, when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from a2a_tool_capture.wire import TERMINAL_STATES, is_from_user, timeline_of

from ..protocol.answers import state_of

CHILDREN_KEY = "\x00children"
"""In an event: the conversations of other agents that it names, a list."""


class StatusMark(NamedTuple):
    """Distinguishes the statuses of a task; the time is the agent's (A2A 1.0, TaskStatus.timestamp)."""

    state: str = ""
    timestamp: str = ""
    message_id: str = ""

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> StatusMark | None:
        """The mark of the status in a v1.0 event; None where it has none."""
        holder = event.get("task") or event.get("statusUpdate")
        status = holder.get("status") if isinstance(holder, dict) else None
        if not isinstance(status, dict):
            return None
        state, message, timestamp = status.get("state"), status.get("message"), status.get("timestamp")
        message_id = message.get("messageId") if isinstance(message, dict) else ""
        return cls(
            state if isinstance(state, str) else "",
            timestamp if isinstance(timestamp, str) else "",
            message_id if isinstance(message_id, str) else "",
        )

    def repeats(self, other: StatusMark) -> bool:
        """Whether it is the same status as the other one; False where nothing tells statuses apart."""
        if self.state != other.state or self.message_id != other.message_id:
            return False
        if self.timestamp == other.timestamp:
            return bool(self.timestamp or self.message_id) or self.state in TERMINAL_STATES
        try:  # bindings write the same time in several ways
            return _moment(self.timestamp) == _moment(other.timestamp)
        except ValueError:
            return False

    def is_before(self, other: StatusMark) -> bool:
        """Whether the agent had this status before the other one; False where that is not known."""
        if not self.timestamp or not other.timestamp:
            return False
        try:
            return _moment(self.timestamp) < _moment(other.timestamp)
        except ValueError:
            return False


NO_STATUS = StatusMark()


def _moment(timestamp: str) -> datetime:
    """Raises ValueError for a text that is no time."""
    moment = datetime.fromisoformat(timestamp)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def shows_end(event: Mapping[str, Any]) -> bool:
    """Whether the event is a task in a final state."""
    return "task" in event and state_of(event) in TERMINAL_STATES


def messages_in(event: Mapping[str, Any]) -> int:
    """Number of the user's messages in the history or timeline of a task; 0 where the event shows none."""
    task = event.get("task")
    if not isinstance(task, dict):
        return 0
    messages = task.get("history")
    if not isinstance(messages, list):
        messages = [entry.get("message") for entry in timeline_of(task)] if "timeline" in task else []
    return sum(map(is_from_user, messages))
