"""Agents that do not speak A2A: a feature serves each in this process, chosen by the scheme of its URL."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from tool_call_evaluators.suite import AgentDefaults

from ..errors import ConfigError
from ..feature import features
from ..turn import Turn

SEED = "a2a-eval-proxy/seed"
"""Key of the metadata of a user's message: the seed of the attempt."""

_SPEAK_A2A = frozenset({"http", "https", "grpc", "grpcs"})


class ServedAgent(Protocol):
    """A running server of an agent: its `name`, the `url` of its card, and the conversations it holds."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    def tell(self, turn: Turn) -> None:
        """Complete a turn with what does not travel: the agent's own id of its conversation, and the sources of its
        calls."""

    def unreachable(self, conversation_id: str) -> str:
        """Why the last turn of the conversation says nothing about the agent; "" if it does."""

    async def begin(self, conversation_id: str, said: Sequence[tuple[str, str]]) -> None:
        """Begin a conversation in which the user has said that, and the agent answered."""

    async def end(self, conversation_id: str) -> None:
        """Forget the conversation."""


def speaks_a2a(agent: str) -> bool:
    return agent.partition(":")[0] in _SPEAK_A2A


@asynccontextmanager
async def connected(
    agent: str, chat: AgentDefaults, headers: Mapping[str, str], tls: ssl.SSLContext | None, timeout_s: float
) -> AsyncIterator[ServedAgent | None]:
    """The server of an agent; None for the URL of an A2A agent. Raises what the feature raises, ConfigError without."""
    if speaks_a2a(agent):
        yield None
        return
    scheme = agent.partition(":")[0]
    serve = next((feature.agents[scheme] for feature in features() if scheme in feature.agents), None)
    if serve is None:
        raise ConfigError(f"--agent: no feature of this installation serves {scheme}: agents")
    async with serve(agent, chat, headers, tls, timeout_s) as server:
        yield server
