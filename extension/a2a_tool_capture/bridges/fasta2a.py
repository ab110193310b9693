"""Storage that carries tool calls of fasta2a workers, which run after the request has ended."""

from __future__ import annotations

import uuid
from typing import Any

from fasta2a.broker import Broker
from fasta2a.schema import Artifact, Message, StreamResponse, Task, TaskArtifactUpdateEvent
from fasta2a.storage import Storage

from ..agent.middleware import request_asks
from ..recent import Recent
from ..recorder import CallRecording, ToolCallRecorder
from ..spec import METADATA_KEY, OWN_ARTIFACT_PREFIX, URI
from ..wire import SETTLED_STATES, normalize_state

MAX_TASKS = 10_000
"""Maximum number of unfinished tasks with recorded calls; the calls of the oldest are dropped."""


class CapturingStorage(Storage[Any]):  # type: ignore[misc,unused-ignore]  # untyped without the framework
    """A storage that associates each task with the recording of the request that submitted it.

    Requests must pass through `CapturingMiddleware`. The worker's first update of a task makes the task's recording
    current. Calls travel on an artifact of their own, which streams receive through `broker`, before the task ends.
    """

    def __init__(self, storage: Storage[Any], recorder: ToolCallRecorder, broker: Broker) -> None:
        self._storage = storage
        self._recorder = recorder
        self._broker = broker
        self._running: Recent[str, CallRecording] = Recent(MAX_TASKS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def load_task(self, task_id: str, history_length: int | None = None) -> Task | None:
        return await self._storage.load_task(task_id, history_length)

    async def submit_task(self, context_id: str, message: Message) -> Task:
        task = await self._storage.submit_task(context_id, message)
        recording = self._recorder.new_recording() if request_asks() else None
        if recording is not None:
            self._running[task["id"]] = recording
        return task

    async def update_task(
        self,
        task_id: str,
        state: Any,
        new_artifacts: list[Artifact] | None = None,
        new_messages: list[Message] | None = None,
    ) -> Task:
        recording = self._running.get(task_id)
        self._recorder.resume(recording)
        if recording is not None and normalize_state(state) in SETTLED_STATES:
            del self._running[task_id]
            new_artifacts = [*(new_artifacts or ()), *await self._with_calls(task_id, recording)]
        return await self._storage.update_task(task_id, state, new_artifacts or None, new_messages)

    async def load_context(self, context_id: str) -> Any:
        return await self._storage.load_context(context_id)

    async def update_context(self, context_id: str, context: Any) -> None:
        await self._storage.update_context(context_id, context)

    async def _with_calls(self, task_id: str, recording: CallRecording) -> list[Artifact]:
        """The artifact with the calls; [] if there are none, and none is missing."""
        metadata = recording.metadata()
        if metadata == {METADATA_KEY: []}:
            return []
        own = Artifact(
            artifact_id=f"{OWN_ARTIFACT_PREFIX}{uuid.uuid4().hex}",
            name="Tool calls",
            parts=[{"text": ""}],
            metadata=metadata,
            extensions=[URI],
        )
        task = await self._storage.load_task(task_id)
        if task is not None:
            update = TaskArtifactUpdateEvent(
                task_id=task_id, context_id=task["context_id"], artifact=own, append=False, last_chunk=True
            )
            await self._broker.event_bus.emit(task_id, StreamResponse(artifact_update=update))
        return [own]
