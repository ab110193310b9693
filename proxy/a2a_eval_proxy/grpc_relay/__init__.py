"""The data port for gRPC: passes calls of any service to the agent as bytes, and captures those of A2A.

`relayed_call` passes one call, `messages` reads copies of A2A messages, `message_filter` removes the extension from
them, `extended_card` names the proxy's addresses, `server` listens, `agent_channel` connects to the agent, `tls` reads
certificates. All but `card_of` require grpcio, an optional dependency.

Imported by `serving`, `admin` and `cli`. Imports relay, capture, protocol and net.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..relay.upstream import Upstream
from ..settings import Settings


def card_of(settings: Settings, upstream: Upstream) -> Callable[[], Awaitable[Any]]:
    """A function that fetches the agent's card: over HTTP, or of an agent that has only gRPC the extended card.

    It raises UpstreamError (no response), TimeoutError, or ValueError (no card).
    """
    if settings.grpc_upstream is None:
        return upstream.fetch_card

    async def fetch() -> Any:
        from .agent_channel import fetch_card  # only where it is used: grpcio is an optional dependency

        return await fetch_card(settings, upstream)

    return fetch
