"""Adds recorded tool calls to the response of an agent on the a2a-sdk server."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import Event, EventQueue
from a2a.types import (
    AgentCard,
    Artifact,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatusUpdateEvent,
)

from ..models import ToolCall
from ..recorder import CallRecording, ToolCallRecorder, wire_entry
from ..spec import METADATA_KEY, OWN_ARTIFACT_PREFIX, URI, agent_extension
from ..wire import SETTLED_STATES, TERMINAL_STATES
from . import sdk_compat

_log = logging.getLogger(__name__)

_MESSAGE = "the agent responded with a Message, but calls travel on artifacts; use a task and an artifact"


def declare_tool_calls(card: AgentCard) -> None:
    """Declare the extension on `card` unless it already is."""
    declared = sdk_compat.entries(card.capabilities, "extensions")
    if all(extension.uri != URI for extension in declared):
        sdk_compat.set_entries(card.capabilities, "extensions", [*declared, agent_extension()])


class CapturingExecutor(AgentExecutor):
    """An executor that adds the calls recorded by `recorder` to the response of `agent`.

    It changes only requests that activate the extension (by the header of A2A 1.0 or 0.3, as the SDK reads it):

    1. The calls are on one artifact of their own, with an empty text: the agent's artifacts stay as they are. It is
       sent after an artifact of the agent, with the calls that have ended by then, and with all calls before the
       status that ends the request; each time only if it has changed.
    2. If the agent responds with a Message, its calls are not sent and a warning is logged; the Message says so.
    3. What the recorder missed is stated on the artifact, too.
    """

    def __init__(self, agent: AgentExecutor, recorder: ToolCallRecorder) -> None:
        self._agent = agent
        self._recorder = recorder
        self._running: dict[str, _CapturingQueue] = {}
        """Queues of running captured requests by task id, for `cancel`, which is a separate request."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        with self._recorder.request(activated=URI in context.requested_extensions) as recording:
            if recording is None:
                await self._agent.execute(context, event_queue)
                return
            if sdk_compat.LEGACY:  # 1.0 has no such answer
                context.add_activated_extension(URI)  # type: ignore[attr-defined]  # 0.3 has it
            queue = _CapturingQueue(event_queue, _Delivery(recording, context))
            task_id = context.task_id or ""
            self._running[task_id] = queue
            try:
                await self._agent.execute(context, queue)
            except Exception:  # the calls that led to it are sent all the same
                await queue.finish()
                raise
            else:
                await queue.finish()
            finally:
                if self._running.get(task_id) is queue:  # a later message to the task may have replaced it
                    del self._running[task_id]

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self._agent.cancel(context, self._running.get(context.task_id or "", event_queue))


class _CapturingQueue(EventQueue):
    """The queue of one request as the agent sees it."""

    def __init__(self, queue: EventQueue, delivery: _Delivery) -> None:
        self._queue = queue
        self._delivery = delivery
        self._order = asyncio.Lock()  # keeps the order of events from concurrent asyncio tasks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)  # other methods of the SDK's queues

    async def enqueue_event(self, event: Event) -> None:
        async with self._order:
            for outgoing in self._delivery.outgoing(event):
                await self._queue.enqueue_event(outgoing)

    async def finish(self) -> None:
        """Send the remaining calls when the agent returns without a final status, or raises."""
        async with self._order:
            for outgoing in self._delivery.remaining():
                await self._queue.enqueue_event(outgoing)
        self._delivery.warn_of_unsent()


class _Delivery:
    """Puts the calls of one request on an artifact. Takes and returns events; does not change the given ones."""

    def __init__(self, recording: CallRecording, context: RequestContext) -> None:
        self._recording = recording
        self._task_id = context.task_id or ""
        self._context_id = context.context_id or ""
        self._task_exists = context.current_task is not None
        self._over = ""
        """Why no further artifacts are accepted; "" if they are."""
        self._artifact_id = f"{OWN_ARTIFACT_PREFIX}{uuid.uuid4().hex}"
        self._sent: dict[str, list[Any]] = {METADATA_KEY: []}
        """The metadata of the artifact, as it was sent last."""

    def outgoing(self, event: Event) -> list[Event]:
        """What to send in place of `event`."""
        match event:
            case TaskArtifactUpdateEvent():
                self._task_exists = True
                ended = [call for call in self._recording.tool_calls if call.ended_at is not None]
                return [event, *self._update(self._artifact(ended, {}))]
            case TaskStatusUpdateEvent():
                self._task_exists = True
                last = self.remaining() if sdk_compat.state_name(event.status) in SETTLED_STATES else []
                self._note_end(event.status)
                return [*last, event]
            case Task() if not self._task_exists:
                self._task_exists = True
                whole = self._first_snapshot(event)
                self._note_end(event.status)
                return [whole]
            case Message():
                self._over = _MESSAGE
                return [self._with_missing(event)]
        return [event]

    def _note_end(self, status: Any) -> None:
        if sdk_compat.state_name(status) in TERMINAL_STATES:
            self._over = "they were made after the task had ended"

    def _with_missing(self, message: Message) -> Message:
        """The response of an agent that creates no task, with the reasons why calls are missing."""
        if self._recording.tool_calls:
            self._recording.missed(_MESSAGE)
        missing = self._recording.missing()
        changed = sdk_compat.copied(message) if missing else message
        for key, reasons in missing.items():
            sdk_compat.set_metadata(changed, key, reasons)
        return changed

    def _first_snapshot(self, task: Task) -> Task:
        """The first Task event, with the calls if it is complete; the server ignores later ones."""
        if sdk_compat.state_name(task.status) not in SETTLED_STATES:
            return task
        artifact = self._artifact(self._recording.tool_calls, self._recording.missing())
        if artifact is None:
            return task
        changed = sdk_compat.copied(task)
        sdk_compat.set_entries(changed, "artifacts", [*sdk_compat.entries(changed, "artifacts"), artifact])
        return changed

    def remaining(self) -> list[Event]:
        """The artifact with all calls, including running ones; [] if it has not changed, or cannot be sent."""
        return self._update(self._artifact(self._recording.tool_calls, self._recording.missing()))

    def _update(self, artifact: Artifact | None) -> list[Event]:
        if artifact is None:
            return []
        return [TaskArtifactUpdateEvent(task_id=self._task_id, context_id=self._context_id, artifact=artifact)]

    def _artifact(self, calls: list[ToolCall], missing: dict[str, list[str]]) -> Artifact | None:
        """None if it has not changed, or cannot be sent."""
        metadata: dict[str, list[Any]] = {METADATA_KEY: [wire_entry(call) for call in calls], **missing}
        if self._over or not self._task_exists or metadata == self._sent:
            return None
        self._sent = metadata
        text = sdk_compat.text_part("")
        artifact = Artifact(artifact_id=self._artifact_id, name="Tool calls", parts=[text], extensions=[URI])
        for key, value in metadata.items():
            sdk_compat.set_metadata(artifact, key, value)
        return artifact

    def warn_of_unsent(self) -> None:
        """Log a warning about unsent calls. Call it when the agent has returned."""
        sent = {entry["id"] for entry in self._sent[METADATA_KEY]}
        unsent = sum(call.id not in sent for call in self._recording.tool_calls)
        if unsent:
            why = self._over or "the agent created no task"
            _log.warning("%d tool call(s) of task %r were recorded and not sent: %s", unsent, self._task_id, why)
