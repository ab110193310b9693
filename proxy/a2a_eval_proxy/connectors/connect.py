"""Connects to an agent by its name: one that does not speak A2A is served by this process first."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from a2a_tool_capture.secret_references import resolve

from .chat_agent import ChatAgent, ChatApi, ChatOptions, ToolModule
from .loading import ChatReference, python_agents, read_reference
from .server import ServedAgent, served


@asynccontextmanager
async def connected(
    agent: str, chat: ChatOptions, headers: Mapping[str, str], tls: ssl.SSLContext | None, timeout_s: float
) -> AsyncIterator[ServedAgent | None]:
    """The server of a `python:` or `openai:` agent; None for the URL of an A2A agent.

    `headers` and `tls` are those of requests to a chat-completions API. Raises ConfigError, ConfigurationError, and
    AgentUnreachableError if nothing answers at its URL.
    """
    reference = read_reference(agent)
    if reference is None:
        yield None
        return
    if isinstance(reference, ChatReference):
        new_agent = await _models(reference, chat, headers, tls)
    else:
        new_agent = python_agents(reference)
    async with served(str(reference), new_agent, timeout_s) as server:
        yield server


async def _models(
    reference: ChatReference, chat: ChatOptions, headers: Mapping[str, str], tls: ssl.SSLContext | None
) -> Callable[[], Any]:
    body = dict(chat.body)
    first = [*([{"role": "system", "content": chat.system}] if chat.system else []), *body.pop("messages", [])]
    with_metadata = bool(body.pop("enable_metadata", False))
    if chat.model:
        body["model"] = chat.model
    api = ChatApi(ChatReference(resolve("--agent", reference.url)).endpoint, body, headers, tls)
    tools = ToolModule(chat.tools) if chat.tools else None
    await api.reach()
    return lambda: ChatAgent(api, first, tools, with_metadata=with_metadata)
