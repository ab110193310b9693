"""The agent over gRPC ends with its block."""

from __future__ import annotations

import asyncio
import uuid

import grpc.aio
from a2a.client.transports.grpc import GrpcTransport
from a2a.types import Message, Part, Role, SendMessageRequest
from agents.grpc_agent import grpc_agent


async def test_a_parked_task_ends_with_its_agent() -> None:
    """One that waits for the user would be collected as garbage in any thread, and stop it for good."""
    before = asyncio.all_tasks()
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text="ask hi")])
    async with grpc_agent() as agent:
        transport = GrpcTransport(grpc.aio.insecure_channel(agent.address), None)
        await transport.send_message(SendMessageRequest(message=message))
        assert any(task.get_name().startswith("producer:") for task in asyncio.all_tasks() - before)
        await transport.close()
    assert not any(task.get_name().startswith(("producer:", "consumer:")) for task in asyncio.all_tasks() - before)
