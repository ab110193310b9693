"""What `serve` says at its start about the agent, by its card, and whether its tool calls are visible."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..admin.agent_status import CARD_ERRORS, status_of, unreachable
from ..net.file_watcher import FileWatch
from ..relay.upstream import Upstream
from ..settings import Settings
from ..transcode import card_of

_AGAIN_S = 5.0


async def watch_agent(settings: Settings, otlp_url: str | None, write: Callable[[str], None]) -> None:
    """Write the agent's line as soon as its card can be read, and before that, once, why it cannot."""
    upstream = Upstream(settings, FileWatch())
    fetch_card = card_of(settings, upstream)
    warned = False
    try:
        while True:
            try:
                card = await fetch_card()
            except CARD_ERRORS as error:
                if not warned:
                    write(unreachable_line(settings, error))
                warned = True
                await asyncio.sleep(_AGAIN_S)
            else:
                write(agent_line(card, settings, otlp_url))
                return
    finally:
        upstream.http.close()


def unreachable_line(settings: Settings, error: Exception) -> str:
    """Why the card cannot be read."""
    return f"warning: {unreachable(settings, error).text}"


def agent_line(card: Any, settings: Settings, otlp_url: str | None) -> str:
    """The agent's name and bindings, and where its tool calls come from. A warning if they come from nowhere."""
    status = status_of(card, settings, otlp_url)
    line = f"agent {status.name}: {status.bindings}; {status.text}"
    return line if status.level == "ok" else f"warning: {line}"
