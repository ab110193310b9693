"""Plays `agents.scenarios` with a2a-sdk, 0.3 or 1.x: what both say alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Artifact, Message, Task, TaskArtifactUpdateEvent, TaskStatus
from agents.control import Control
from agents.scenarios import (
    METADATA_KEY,
    RESUMED,
    URI,
    Chunk,
    Crash,
    Gate,
    Reply,
    Snapshot,
    Status,
    Step,
    gate_of,
    scenario_of,
)

RPC_PATH = "/a2a/jsonrpc"
REST_PATH = "/a2a/rest"


@dataclass(frozen=True)
class AgentOptions:
    """How the agent treats the extension, and what its card says.

    `gated` agents report calls only to requests that list the URI in the extensions header, with `gated_reads` stored
    ones, too, which the SDK of 0.3 shows to all. `grpc` is its gRPC address in the card.
    `extended`: whether there is an extended card. `notifies`: whether it notifies webhooks. `bindings`: in the card.
    """

    declared: bool = True
    gated: bool = True
    gated_reads: bool = False
    grpc: str = "127.0.0.1:1"
    extended: bool = True
    notifies: bool = False
    bindings: tuple[str, ...] = ("JSONRPC", "HTTP+JSON", "GRPC")


class Executor(AgentExecutor):
    """Cancels tasks without a word."""

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


class ScenarioExecutor(AgentExecutor):
    """Plays the steps of the scenario named in the message, in the words of one SDK."""

    role: Any
    """An agent's."""

    def __init__(self, options: AgentOptions, control: Control) -> None:
        self.options = options
        self._control = control

    def text(self, text: str) -> Any:
        """A part with this text."""
        raise NotImplementedError

    def rich_parts(self) -> list[Any]:
        """A data, a raw file and a URL file part."""
        raise NotImplementedError

    def state(self, name: str) -> Any:
        """The state of a name of A2A 0.3."""
        raise NotImplementedError

    def reports(self, context: RequestContext) -> bool:
        """Whether the answer to a request has tool calls."""
        return not self.options.gated or URI in context.requested_extensions

    def how(self, state: str) -> dict[str, bool]:
        """Further options of a change of the state."""
        return {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        scenario = RESUMED if context.current_task else scenario_of(text)
        reports = self.reports(context)
        if context.current_task is None and not isinstance(scenario.steps[0], Reply):
            await event_queue.enqueue_event(self._task(context, "submitted", (), reports=reports))
        for step in scenario.steps:
            await self._do(step, context, event_queue, reports=reports)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.cancel(updater.new_agent_message([self.text("canceled by client")]))

    async def _do(self, step: Step, context: RequestContext, queue: EventQueue, *, reports: bool) -> None:
        text, ids = context.get_user_input(), {"task_id": context.task_id or "", "context_id": context.context_id or ""}
        match step:
            case Chunk():
                artifact = self._artifact(step, text, reports=reports)
                chunk = TaskArtifactUpdateEvent(**ids, artifact=artifact, append=step.append, last_chunk=step.last)
                await queue.enqueue_event(chunk)
            case Status(state, words):
                updater = TaskUpdater(queue, **ids)
                message = updater.new_agent_message([self.text(words)]) if words else None
                await updater.update_status(self.state(state), message, **self.how(state))
            case Snapshot(state, artifacts):
                await queue.enqueue_event(self._task(context, state, artifacts, reports=reports))
            case Reply(words):
                parts, message_id = [self.text(words.format(text=text))], f"reply-{ids['task_id']}"
                reply = Message(message_id=message_id, context_id=ids["context_id"], role=self.role, parts=parts)
                await queue.enqueue_event(reply)
            case Gate():
                await self._control.wait_at_gate(gate_of(text))
            case Crash(words):
                raise RuntimeError(words)

    def _task(self, context: RequestContext, state: str, chunks: tuple[Chunk, ...], *, reports: bool) -> Task:
        return Task(
            id=context.task_id or "",
            context_id=context.context_id or "",
            status=TaskStatus(state=self.state(state)),
            history=[context.message] if context.message else [],
            artifacts=[self._artifact(chunk, "", reports=reports) for chunk in chunks] or None,
        )

    def _artifact(self, chunk: Chunk, text: str, *, reports: bool) -> Artifact:
        reported = chunk.calls if reports else ()
        return Artifact(
            artifact_id=chunk.artifact_id,
            name=None if chunk.append else "result",
            parts=[self.text(chunk.text.replace("{text}", text)), *(self.rich_parts() if chunk.rich else [])],
            metadata={METADATA_KEY: list(reported)} if reported else None,
            extensions=[URI] if reported else None,
        )
