"""What the file of a Python agent imports that `a2a-eval-proxy run --agent python:FILE` drives.

Names and signatures are those of arksim's Python connector. Where arksim is not installed, `arksim_names` serves them
under arksim's module names, so that an agent written for it runs unchanged. `tracing` needs openai-agents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..models import ToolCall as ToolCall
from ..models import ToolCallSource as ToolCallSource
from ..recorder import ToolCallRecorder
from ..spec import A2AToolCaptureExtension as A2AToolCaptureExtension

__all__ = [
    "AgentConfig",
    "AgentResponse",
    "BaseAgent",
    "CustomConfig",
    "recorder",
]

recorder = ToolCallRecorder(enabled=True)
"""Records tool calls that an agent does not return itself: pass it to a bridge, or decorate tools with it.

A call that the agent also returns counts once, with the values of the returned one.
"""


@dataclass(frozen=True, slots=True)
class CustomConfig:
    """Where the agent's class was loaded from: a file or a dotted module name, and the name of the class."""

    module_path: str | None = None
    class_name: str | None = None
    agent_class: type | None = None


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """What an agent's constructor receives."""

    agent_name: str
    agent_type: str = "custom"
    api_config: Any = None
    custom_config: CustomConfig | None = None


@dataclass(frozen=True, slots=True)
class AgentResponse:
    """The answer to a user message, with the tool calls that were made for it."""

    content: str
    tool_calls: Sequence[ToolCall] = ()


class BaseAgent(ABC):
    """An agent for one conversation: a new instance is created for each, and closed at its end.

    Deriving from it is optional. An agent may also define `get_chat_id`, which returns the id of the conversation; by
    default that is the A2A contextId. Its methods may be coroutine functions or functions; the latter run in a thread.
    """

    def __init__(self, agent_config: AgentConfig) -> None:
        self.agent_config = agent_config

    @abstractmethod
    async def execute(self, user_query: str, **kwargs: object) -> str | AgentResponse:
        """Answer a user message.

        `kwargs["metadata"]` is `{"chat_id": str, "turn_id": int}`: the id of the conversation, and the index of the
        turn in it, from 0. `chat_id` and `turn_id` are also keyword arguments of their own.
        """

    async def close(self) -> None:  # noqa: B027  # optional
        """Release what the agent holds."""
