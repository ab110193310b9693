"""An agent that puts calls on artifacts itself, step by step as ArkSim's page on the extension describes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill
from a2a_tool_capture import A2AToolCaptureExtension
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.spec import ExtensionVersion
from agents.serving import ServerThread
from starlette.applications import Starlette

CALLS = [{"id": "c1", "name": "search", "arguments": {"q": "kettle"}, "result": "KET-01"}]
V2 = ExtensionVersion(2)


class ByHand(AgentExecutor):
    """Calls a tool for every message but "hello"; for "both", the calls are also on an artifact of a later version."""

    def __init__(self) -> None:
        self.emitted: list[tuple[Any, Any]] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        if context.message is None or context.task_id is None or context.context_id is None:
            raise ValueError("a request without a message")
        text = context.get_user_input()
        calls = [] if text == "hello" else CALLS
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        emit = A2AToolCaptureExtension.URI in context.requested_extensions
        metadata: dict[str, Any] = {}
        extensions: list[str] = []
        if emit and calls:
            metadata[A2AToolCaptureExtension.METADATA_KEY] = calls
            extensions.append(A2AToolCaptureExtension.URI)
        self.emitted.append((metadata or None, extensions or None))
        parts = [new_text_part("ok")]
        await updater.add_artifact(parts, metadata=metadata or None, extensions=extensions or None)
        if text == "both":
            await updater.add_artifact(parts, metadata={V2.metadata_key: calls}, extensions=[V2.uri])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@pytest.fixture
def by_hand() -> ByHand:
    return ByHand()


@pytest.fixture
def url(by_hand: ByHand) -> Iterator[str]:
    def app(url: str) -> Starlette:
        declared = [
            AgentExtension(uri=A2AToolCaptureExtension.URI, description="Tool calls, for evaluation.", required=False),
            AgentExtension(uri=V2.uri, description="The same.", required=False),
        ]
        card = AgentCard(
            name="By hand",
            description="An agent",
            version="1",
            supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
            capabilities=AgentCapabilities(streaming=True, extensions=declared),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="s", name="s", description="s", tags=["s"])],
        )
        handler = DefaultRequestHandler(by_hand, InMemoryTaskStore(), card)
        return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])

    with ServerThread(app) as server:
        yield server.url


@pytest.mark.statement(321, 323, 330)
@pytest.mark.parametrize("streaming", [True, False])
async def test_its_calls_are_read_and_artifacts_without_calls_carry_nothing(
    url: str, by_hand: ByHand, streaming: bool
) -> None:
    async with CaptureClient(url, streaming=streaming) as client:
        silent, called = await client.send("hello"), await client.send("find")
        assert client.declared
        assert [extension.HasField("params") for extension in client.card.capabilities.extensions] == [False, False]
    assert (silent.text, silent.tool_calls, silent.findings) == ("ok", (), ())
    assert [(call.id, call.name, call.arguments, call.result) for call in called.tool_calls] == [
        ("c1", "search", {"q": "kettle"}, "KET-01")
    ]
    assert [call.source for call in called.tool_calls] == ["a2a_protocol"]
    carried = {A2AToolCaptureExtension.METADATA_KEY: CALLS}
    assert by_hand.emitted == [(None, None), (carried, [A2AToolCaptureExtension.URI])]


@pytest.mark.statement(345)
@pytest.mark.parametrize("streaming", [True, False])
async def test_calls_under_two_versions_on_two_artifacts_count_once(url: str, streaming: bool) -> None:
    async with CaptureClient(url, streaming=streaming) as client:
        turn = await client.send("both")
    assert [call.name for call in turn.tool_calls] == ["search"]
    assert turn.findings == ()
