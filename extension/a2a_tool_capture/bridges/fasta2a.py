"""Storage that carries tool calls of fasta2a workers, which run after the request has ended."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fasta2a.broker import Broker
from fasta2a.schema import Artifact, Message, StreamResponse, Task, TaskArtifactUpdateEvent
from fasta2a.storage import Storage

from ..agent.middleware import request_asks
from ..models import ToolCall
from ..recent import Recent
from ..recorder import CallRecording, ToolCallRecorder, wire_entry
from ..spec import METADATA_KEY, OWN_ARTIFACT_PREFIX, URI
from ..wire import SETTLED_STATES, normalize_state

MAX_TASKS = 10_000
"""Maximum number of unfinished tasks with recorded calls; the calls of the oldest are dropped."""


@dataclass
class _Running:
    recording: CallRecording
    sent: set[str] = field(default_factory=set)
    """Ids of calls that are already on an artifact."""


class CapturingStorage(Storage[Any]):  # type: ignore[misc,unused-ignore]  # untyped without the framework
    """A storage that associates each task with the recording of the request that submitted it.

    Requests must pass through `CapturingMiddleware`. The worker's first update of a task makes the task's recording
    current. Calls travel on the next artifact of the task. Calls without a later artifact travel on an additional
    one, which streams receive through `broker`, before the task ends.
    """

    def __init__(self, storage: Storage[Any], recorder: ToolCallRecorder, broker: Broker) -> None:
        self._storage = storage
        self._recorder = recorder
        self._broker = broker
        self._running: Recent[str, _Running] = Recent(MAX_TASKS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def load_task(self, task_id: str, history_length: int | None = None) -> Task | None:
        return await self._storage.load_task(task_id, history_length)

    async def submit_task(self, context_id: str, message: Message) -> Task:
        task = await self._storage.submit_task(context_id, message)
        recording = self._recorder.new_recording() if request_asks() else None
        if recording is not None:
            self._running[task["id"]] = _Running(recording)
        return task

    async def update_task(
        self,
        task_id: str,
        state: Any,
        new_artifacts: list[Artifact] | None = None,
        new_messages: list[Message] | None = None,
    ) -> Task:
        running = self._running.get(task_id)
        self._recorder.resume(running.recording if running else None)
        if running is not None:
            settled = normalize_state(state) in SETTLED_STATES
            new_artifacts = await self._with_calls(task_id, running, new_artifacts or [], settled=settled)
            if settled:
                del self._running[task_id]
        return await self._storage.update_task(task_id, state, new_artifacts or None, new_messages)

    async def load_context(self, context_id: str) -> Any:
        return await self._storage.load_context(context_id)

    async def update_context(self, context_id: str, context: Any) -> None:
        await self._storage.update_context(context_id, context)

    async def _with_calls(
        self, task_id: str, running: _Running, artifacts: list[Artifact], *, settled: bool
    ) -> list[Artifact]:
        """The artifacts with calls; changed in place, because the worker publishes the same objects to streams."""
        calls = [call for call in running.recording.tool_calls if call.id not in running.sent]
        if not settled:
            calls = [call for call in calls if call.ended_at is not None]
        for artifact in artifacts:
            _put(artifact, calls)
            running.sent.update(call.id for call in calls)
            calls = []
        missing = running.recording.missing()
        if not settled or not (calls or missing):
            return artifacts
        own = Artifact(artifact_id=f"{OWN_ARTIFACT_PREFIX}{uuid.uuid4().hex}", name="Tool calls", parts=[{"text": ""}])
        _put(own, calls, missing)
        task = await self._storage.load_task(task_id)
        if task is not None:
            update = TaskArtifactUpdateEvent(
                task_id=task_id, context_id=task["context_id"], artifact=own, append=False, last_chunk=True
            )
            await self._broker.event_bus.emit(task_id, StreamResponse(artifact_update=update))
        return [own]


def _put(artifact: Artifact, calls: list[ToolCall], missing: Mapping[str, Any] | None = None) -> None:
    entries = {METADATA_KEY: [wire_entry(call) for call in calls], **(missing or {})}
    artifact["metadata"] = {**artifact.get("metadata", {}), **entries}
    artifact["extensions"] = [*artifact.get("extensions", []), URI]
