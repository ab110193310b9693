"""An agent that is a model behind a chat-completions API, with its tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from a2a_tool_capture.connector import recorder

from .chat_api import ChatApi, ChatApiError
from .tools import ToolModule

MAX_ROUNDS = 20
"""Requests for one user message: each is sent after the results of the tools that the last response called."""

NOT_RUN = "The tool was not run."
"""The result that the model gets for a call where no Python module has the tools."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What is sent with every request: `model`, the `system` prompt, and other members of the `body`.

    The `messages` of `body` begin every conversation. Its `enable_metadata`, as in ArkSim, is not sent: it adds
    `metadata` with the conversation's `chat_id` and `turn_id`. `tools` is a Python file or module whose functions are
    offered to the model and run.
    """

    model: str | None = None
    system: str | None = None
    tools: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)


class ChatAgent:
    """A conversation with a model. The tool calls in its messages are recorded."""

    def __init__(
        self, api: ChatApi, first: list[dict[str, Any]], tools: ToolModule | None, *, with_metadata: bool
    ) -> None:
        """`with_metadata`: requests carry the conversation's `chat_id` and `turn_id`."""
        self._api = api
        self._with_metadata = with_metadata
        self._client = api.client()
        self._messages = first
        self._tools = tools

    async def execute(self, user_query: str, metadata: Mapping[str, Any] | None = None) -> str:
        """The model's answer. Without a `ToolModule`, calls end the turn: they are recorded, and nothing is run.

        Raises ChatApiError.
        """
        messages = [*self._messages, {"role": "user", "content": user_query}]
        further: dict[str, Any] = {"tools": self._tools.definitions} if self._tools else {}
        if self._with_metadata:
            further["metadata"] = metadata
        for _ in range(MAX_ROUNDS):
            message = await self._api.complete(self._client, {"messages": messages, **further})
            messages.append({"role": "assistant", **message})
            calls = [_RequestedCall.read(call) for call in message.get("tool_calls") or ()]
            messages += [await self._result(call) for call in calls]
            if self._tools is None or not calls:
                self._messages = messages
                return _text(message)
        raise ChatApiError(f"the model calls tools without end: {MAX_ROUNDS} requests for one message")

    async def close(self) -> None:
        await self._client.aclose()

    async def _result(self, call: _RequestedCall) -> dict[str, Any]:
        """The message with the result of a call."""
        if self._tools is None:
            recorder.started(call.name, call.arguments, id=call.id)
            result = NOT_RUN
        else:
            result = await self._tools.call(call.name, call.arguments, call.id)
        return {"role": "tool", "tool_call_id": call.id, "content": result}


@dataclass(frozen=True, slots=True)
class _RequestedCall:
    id: str
    name: str
    arguments: str

    @classmethod
    def read(cls, call: Any) -> _RequestedCall:
        """One of a message's `tool_calls`. Raises ChatApiError."""
        try:
            function = call["function"]
            read = cls(str(call.get("id") or ""), function["name"], function.get("arguments") or "{}")
        except (TypeError, KeyError, AttributeError):
            raise ChatApiError("the model's message has a tool call without a function") from None
        if not isinstance(read.name, str) or not isinstance(read.arguments, str):
            raise ChatApiError("the model's message has a tool call whose name or arguments are no text")
        return read


def _text(message: Mapping[str, Any]) -> str:
    """The content of a message, which some servers send as a list of parts; without one, the refusal."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else str(message.get("refusal") or "")
