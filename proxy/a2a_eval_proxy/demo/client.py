"""The ordinary A2A client of the demo, which knows nothing of the proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest
from a2a_tool_capture import TaskMerger
from a2a_tool_capture.wire import INTERRUPTED_STATES
from google.protobuf.json_format import MessageToDict
from tool_call_evaluators.suite import Case, Suite

CASE_HEADER = "A2A-Eval-Case"


async def send_suite(url: str, suite: Suite) -> AsyncIterator[tuple[Case, TaskMerger]]:
    """Hold every conversation of `suite` with the agent behind `url`; yields the case and the answer of each turn.

    Raises the SDK's A2AError if the agent cannot be reached.
    """
    async with httpx.AsyncClient(timeout=httpx.Timeout(60.0), trust_env=False) as http:
        client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(url)
        for case in suite.cases:
            context_id = task_id = None
            for turn in case.turns:
                answer = await send(client, turn.user, {CASE_HEADER: case.id}, context_id, task_id)
                context_id = answer.context_id
                task_id = answer.task_id if answer.state in INTERRUPTED_STATES else None
                yield case, answer


async def send(
    client: Client, text: str, headers: Mapping[str, str], context_id: str | None = None, task_id: str | None = None
) -> TaskMerger:
    message = new_text_message(text, context_id=context_id, task_id=task_id, role=Role.ROLE_USER)
    context = ClientCallContext(service_parameters=dict(headers))
    answer = TaskMerger()
    async for event in client.send_message(SendMessageRequest(message=message), context=context):
        answer.feed(MessageToDict(event))
    return answer
