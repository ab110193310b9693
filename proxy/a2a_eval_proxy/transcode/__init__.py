"""Offers an agent that has only gRPC over JSON-RPC and HTTP+JSON (`--transcode`).

The data port relays and captures as it does before any agent. What answers it is not an address but an application in
the same process: the HTTP server of a2a-sdk (`application`), whose request handler calls the agent over gRPC and maps
errors (`handler`). `metadata` maps headers, `card` makes the agent card.
All but `card_of` and `card` require grpcio, an optional dependency.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..net.file_watcher import FileWatch
from ..relay.upstream import Upstream
from ..settings.settings import AgentSettings


def card_of(settings: AgentSettings, upstream: Upstream) -> Callable[[], Awaitable[Any]]:
    """A function that fetches the agent's card: over HTTP, or of an agent that has only gRPC the extended card, or
    else the card of the settings if the proxy transcodes.

    It raises UpstreamError (no response), TimeoutError, or ValueError (no card).
    """
    if settings.grpc_upstream is None:
        return upstream.fetch_card

    async def fetch() -> Any:
        from .agent_channel import fetch_card  # only where it is used: grpcio is an optional dependency

        try:
            return await fetch_card(settings, upstream)
        except ValueError:
            if not settings.transcode:
                raise
            from .card import ConfiguredCard

            return ConfiguredCard(settings, FileWatch()).content

    return fetch
