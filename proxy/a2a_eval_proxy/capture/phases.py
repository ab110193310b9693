"""The phases of a turn from its message to its end, and one table of what leads from which phase to which."""

from __future__ import annotations

from enum import StrEnum


class TurnPhase(StrEnum):
    """What the turn waits for."""

    WAITING = "waiting"
    """For the first event of the agent."""
    RESUMED = "resumed"
    """For the first news of a task that the message continues."""
    WORKING = "working"
    """For the end of the task, or for its question to the user."""
    REPEATED = "repeated"
    """For evidence of its own: its answer repeats the end of the turn before, which says nothing of this one."""
    FINISHED_ELSEWHERE = "finished elsewhere"
    """For the leading stream to show the end that another stream of the task has shown. Its client may be gone."""
    ANSWERED = "answered"
    """For its streams to end: the task has ended or asks its user, or a Message came."""
    CLOSED = "closed"


class TurnEvent(StrEnum):
    """What happens to a turn."""

    TASK_STARTED = "new task"
    TASK_RESUMED = "known task"
    CONTENT = "artifact chunk"
    PROGRESS = "task works"
    QUESTION_REPEATED = "task still asks its user"
    END_REPEATED = "answer repeats the end before"
    ANSWER = "final state, question or Message"
    OTHER_STREAM_FINISHED = "other stream shows the end"
    EXCHANGE_ENDED = "exchange ended"
    LAST_STREAM_ENDED = "last stream ended"
    FAILED = "no answer possible"
    LINGERED = "stream lingers"
    TIMED_OUT = "timeout"
    NEXT_MESSAGE = "next message"
    STOPPED = "proxy stops"


_Row = dict[TurnEvent, TurnPhase]

_CLOSING: _Row = dict.fromkeys((TurnEvent.FAILED, TurnEvent.STOPPED, TurnEvent.NEXT_MESSAGE), TurnPhase.CLOSED)

TRANSITIONS: dict[TurnPhase, _Row] = {
    TurnPhase.WAITING: {
        TurnEvent.TASK_STARTED: TurnPhase.WORKING,
        TurnEvent.TASK_RESUMED: TurnPhase.RESUMED,
        TurnEvent.ANSWER: TurnPhase.ANSWERED,
        TurnEvent.EXCHANGE_ENDED: TurnPhase.CLOSED,
        TurnEvent.TIMED_OUT: TurnPhase.CLOSED,
        **_CLOSING,
    },
    TurnPhase.RESUMED: {
        TurnEvent.CONTENT: TurnPhase.WORKING,
        TurnEvent.PROGRESS: TurnPhase.WORKING,
        TurnEvent.QUESTION_REPEATED: TurnPhase.RESUMED,
        TurnEvent.END_REPEATED: TurnPhase.REPEATED,
        TurnEvent.ANSWER: TurnPhase.ANSWERED,
        TurnEvent.OTHER_STREAM_FINISHED: TurnPhase.FINISHED_ELSEWHERE,
        TurnEvent.EXCHANGE_ENDED: TurnPhase.RESUMED,
        TurnEvent.TIMED_OUT: TurnPhase.CLOSED,
        **_CLOSING,
    },
    TurnPhase.REPEATED: {
        TurnEvent.CONTENT: TurnPhase.WORKING,
        TurnEvent.PROGRESS: TurnPhase.WORKING,
        TurnEvent.QUESTION_REPEATED: TurnPhase.REPEATED,
        TurnEvent.ANSWER: TurnPhase.ANSWERED,
        TurnEvent.OTHER_STREAM_FINISHED: TurnPhase.FINISHED_ELSEWHERE,
        TurnEvent.EXCHANGE_ENDED: TurnPhase.REPEATED,
        TurnEvent.LINGERED: TurnPhase.CLOSED,
        **_CLOSING,
    },
    TurnPhase.WORKING: {
        TurnEvent.CONTENT: TurnPhase.WORKING,
        TurnEvent.PROGRESS: TurnPhase.WORKING,
        TurnEvent.QUESTION_REPEATED: TurnPhase.ANSWERED,
        TurnEvent.ANSWER: TurnPhase.ANSWERED,
        TurnEvent.OTHER_STREAM_FINISHED: TurnPhase.FINISHED_ELSEWHERE,
        TurnEvent.EXCHANGE_ENDED: TurnPhase.WORKING,
        TurnEvent.TIMED_OUT: TurnPhase.CLOSED,
        **_CLOSING,
    },
    TurnPhase.FINISHED_ELSEWHERE: {
        TurnEvent.CONTENT: TurnPhase.FINISHED_ELSEWHERE,
        TurnEvent.PROGRESS: TurnPhase.FINISHED_ELSEWHERE,
        TurnEvent.QUESTION_REPEATED: TurnPhase.FINISHED_ELSEWHERE,
        TurnEvent.ANSWER: TurnPhase.ANSWERED,
        TurnEvent.OTHER_STREAM_FINISHED: TurnPhase.FINISHED_ELSEWHERE,
        TurnEvent.EXCHANGE_ENDED: TurnPhase.FINISHED_ELSEWHERE,
        TurnEvent.LINGERED: TurnPhase.CLOSED,
        **_CLOSING,
    },
    TurnPhase.ANSWERED: {
        TurnEvent.TASK_STARTED: TurnPhase.WORKING,
        TurnEvent.CONTENT: TurnPhase.ANSWERED,
        TurnEvent.PROGRESS: TurnPhase.WORKING,
        TurnEvent.QUESTION_REPEATED: TurnPhase.ANSWERED,
        TurnEvent.ANSWER: TurnPhase.ANSWERED,
        TurnEvent.OTHER_STREAM_FINISHED: TurnPhase.ANSWERED,
        TurnEvent.EXCHANGE_ENDED: TurnPhase.ANSWERED,
        TurnEvent.LAST_STREAM_ENDED: TurnPhase.CLOSED,
        TurnEvent.LINGERED: TurnPhase.CLOSED,
        **_CLOSING,
    },
    TurnPhase.CLOSED: {},
}
"""The next phase, by phase and event. Any other pair raises KeyError: it cannot happen."""
