"""Adds recorded tool calls to the artifacts of an agent on the a2a-sdk server."""

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

from ..extension_filter import holds_nothing
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
    """An executor that adds the calls recorded by `recorder` to the artifacts of `agent`.

    It changes only requests that activate the extension (by the header of A2A 1.0 or 0.3, as the SDK reads it):

    1. Every artifact lists the extension's URI and carries the calls made before it, each call on one artifact.
    2. An artifact that began before another one with calls gets no further calls, because readers take artifacts in
       the order in which they began.
    3. A chunk after new calls repeats all calls of its artifact, because servers merge chunks by overwriting metadata
       and keep the `extensions` of the first. Servers of a2a-sdk 0.3 also keep the metadata of the first chunk, so
       later chunks carry no calls there.
    4. Calls without a later artifact are sent on an additional artifact with an empty text, before the status that
       ends the request.
    5. If the agent responds with a Message, its calls are not sent and a warning is logged; the Message says so.
    6. What the recorder missed is stated on the additional artifact.
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
    """Assigns the calls of one request to artifacts. Takes and returns events; does not change the given ones."""

    def __init__(self, recording: CallRecording, context: RequestContext) -> None:
        self._recording = recording
        self._task_id = context.task_id or ""
        self._context_id = context.context_id or ""
        self._task_exists = context.current_task is not None
        self._over = False
        """Whether the task has ended or the agent responded with a Message: no further artifacts are accepted."""
        self._earlier: dict[str, list[dict[str, Any]]] = {}
        """Entries of earlier requests on artifacts of this task, which a chunk with a list would replace."""
        self._unlisted: set[str] = set()
        """Artifacts that began without the URI, which the server ignores on later chunks."""
        self._sent: dict[str, list[dict[str, Any]]] = {}
        """The list that the server has for each artifact; a chunk without a list does not change it."""
        self._artifact_of: dict[str, str] = {}
        """Artifact id by call id."""
        self._began: dict[str, int] = {}
        """Number of each artifact of the task, in the order in which they began."""
        self._carrying = -1
        """Number of the last artifact that carries calls of this request; earlier ones get no further calls."""
        self._warned_of: set[str] = set()
        """Ids of unsent calls that were logged."""
        self._own_artifact = f"{OWN_ARTIFACT_PREFIX}{uuid.uuid4().hex}"
        self._own_sent: tuple[list[ToolCall], dict[str, list[str]]] = [], {}
        if context.current_task is not None:
            for artifact in sdk_compat.entries(context.current_task, "artifacts"):
                self._remember(artifact)

    def outgoing(self, event: Event) -> list[Event]:
        """What to send in place of `event`."""
        match event:
            case TaskArtifactUpdateEvent():
                return [self._with_calls(event)]
            case TaskStatusUpdateEvent():
                self._task_exists = True
                state = sdk_compat.state_name(event.status)
                if state not in SETTLED_STATES:
                    return [event]
                last = self.remaining()
                self._over = state in TERMINAL_STATES
                return [*last, event]
            case Task() if not self._task_exists:
                return [self._first_snapshot(event)]
            case Message():
                self._over = True
                self._warn(self._recording.tool_calls, _MESSAGE)
                return [self._with_missing(event)]
        return [event]

    def _with_missing(self, message: Message) -> Message:
        """The response of an agent that creates no task, with the reasons why calls are missing."""
        if self._recording.tool_calls:
            self._recording.missed(_MESSAGE)
        missing = self._recording.missing()
        changed = sdk_compat.copied(message) if missing else message
        for key, reasons in missing.items():
            sdk_compat.set_metadata(changed, key, reasons)
        return changed

    def remaining(self) -> list[Event]:
        """An artifact with the calls that are on no other; [] without such calls, or if none can be sent."""
        if self._over or not self._task_exists:
            return []
        artifact = self._own(self._recording.tool_calls)
        if artifact is None:
            return []
        return [TaskArtifactUpdateEvent(task_id=self._task_id, context_id=self._context_id, artifact=artifact)]

    def warn_of_unsent(self) -> None:
        """Log a warning about unsent calls. Call it when the agent has returned."""
        why = "they were made after the task had ended" if self._over else "the agent created no task"
        self._warn([call for call in self._recording.tool_calls if call.id not in self._artifact_of], why)

    def _warn(self, unsent: list[ToolCall], why: str) -> None:
        unsent = [call for call in unsent if call.id not in self._warned_of]
        self._warned_of.update(call.id for call in unsent)
        if unsent:
            _log.warning("%d tool call(s) of task %r were recorded and not sent: %s", len(unsent), self._task_id, why)

    def _with_calls(self, event: TaskArtifactUpdateEvent) -> TaskArtifactUpdateEvent:
        self._task_exists = True
        artifact_id = event.artifact.artifact_id
        self._number(artifact_id)
        if not event.append:
            self._unlisted.discard(artifact_id)
        if artifact_id in self._unlisted or (event.append and not sdk_compat.CHUNKS_CARRY_METADATA):
            return event
        changed = sdk_compat.copied(event)
        if _holds_something(event.artifact):
            self._place(artifact_id, [call for call in self._recording.tool_calls if call.ended_at is not None])
            self._write(changed.artifact, again=not event.append)
        else:
            _list_uri(changed.artifact)
        return changed

    def _first_snapshot(self, task: Task) -> Task:
        """The first Task event, with calls. It may be complete; the server ignores later ones."""
        self._task_exists = True
        changed = sdk_compat.copied(task)
        artifacts = sdk_compat.entries(changed, "artifacts")
        calls = self._recording.tool_calls
        state = sdk_compat.state_name(task.status)
        settled = state in SETTLED_STATES
        for artifact in artifacts:
            self._number(artifact.artifact_id)
        carrying = [artifact for artifact in artifacts if _holds_something(artifact)]
        if carrying:
            last = carrying[-1].artifact_id
            self._place(last, [call for call in calls if settled or call.ended_at is not None])
        for artifact in artifacts:
            if artifact in carrying:
                self._write(artifact)
            else:
                _list_uri(artifact)
        if settled:
            own = self._own(calls)
            if own is not None:
                sdk_compat.set_entries(changed, "artifacts", [*artifacts, own])
            self._over = state in TERMINAL_STATES
        return changed

    def _own(self, calls: list[ToolCall]) -> Artifact | None:
        """The artifact for calls that are on no other, including running ones, and for what is missing; None if it has
        not changed."""
        self._place(self._own_artifact, calls)
        now = self._calls_on(self._own_artifact), self._recording.missing()
        if now == self._own_sent:
            return None
        self._own_sent = now
        artifact = Artifact(artifact_id=self._own_artifact, name="Tool calls", parts=[sdk_compat.text_part("")])
        self._write(artifact)
        for key, reasons in now[1].items():
            sdk_compat.set_metadata(artifact, key, reasons)
        return artifact

    def _number(self, artifact_id: str) -> int:
        return self._began.setdefault(artifact_id, len(self._began))

    def _place(self, artifact_id: str, calls: list[ToolCall]) -> None:
        """Assign those of `calls` without an artifact to this one, unless a later artifact carries calls."""
        new = [call.id for call in calls if call.id not in self._artifact_of]
        if new and self._number(artifact_id) >= self._carrying:
            self._carrying = self._number(artifact_id)
            self._artifact_of.update(dict.fromkeys(new, artifact_id))

    def _calls_on(self, artifact_id: str) -> list[ToolCall]:
        return [call for call in self._recording.tool_calls if self._artifact_of.get(call.id) == artifact_id]

    def _write(self, artifact: Artifact, *, again: bool = True) -> None:
        """Put URI and list on `artifact`; `again` repeats a list that has not changed.

        A response may have hundreds of chunks and large results, and some clients count repeated calls twice.
        """
        entries = [wire_entry(call) for call in self._calls_on(artifact.artifact_id)]
        entries = self._earlier.get(artifact.artifact_id, []) + entries
        if again or entries != self._sent.get(artifact.artifact_id):
            sdk_compat.set_metadata(artifact, METADATA_KEY, entries)
            self._sent[artifact.artifact_id] = entries
        _list_uri(artifact)

    def _remember(self, artifact: Artifact) -> None:
        self._number(artifact.artifact_id)
        if URI not in sdk_compat.entries(artifact, "extensions"):
            self._unlisted.add(artifact.artifact_id)
        elif (entries := sdk_compat.metadata_of(artifact).get(METADATA_KEY)) is not None:
            self._earlier[artifact.artifact_id] = entries if isinstance(entries, list) else []
            self._sent[artifact.artifact_id] = self._earlier[artifact.artifact_id]


def _holds_something(artifact: Artifact) -> bool:
    """Whether an artifact or chunk may carry calls: without other content it would seem to exist for them."""
    return sdk_compat.holds_text(artifact) or not holds_nothing(sdk_compat.as_json(artifact))


def _list_uri(artifact: Artifact) -> None:
    uris = sdk_compat.entries(artifact, "extensions")
    if URI not in uris:
        sdk_compat.set_entries(artifact, "extensions", [*uris, URI])
