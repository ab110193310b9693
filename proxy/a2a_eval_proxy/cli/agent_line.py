"""What `serve` says at its start about the agent, by its card, and whether its tool calls are visible."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tool_call_evaluators.report.wording import one_line, printable

from ..net.file_watcher import FileWatch
from ..net.http_client import UpstreamError
from ..protocol.agent_card import bindings_of, declared_uris
from ..relay.upstream import Upstream
from ..settings import Settings

_AGAIN_S = 5.0
_MAX_TEXT = 200


async def watch_agent(settings: Settings, otlp_url: str | None, write: Callable[[str], None]) -> None:
    """Write the agent's line as soon as its card can be read, and before that, once, why it cannot."""
    upstream = Upstream(settings, FileWatch())
    warned = False
    try:
        while True:
            try:
                card = await upstream.fetch_card()
            except (UpstreamError, ValueError, TimeoutError, RecursionError) as error:
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
    if isinstance(error, UpstreamError | TimeoutError):
        why = str(error) or "it does not respond"
        return f"warning: agent {settings.upstream} is unreachable: {_short(why)}; requests fail until it is up"
    return f"warning: {_short(str(error))}: clients find no card, and the agent is not asked for tool calls"


def agent_line(card: Any, settings: Settings, otlp_url: str | None) -> str:
    """The agent's name and bindings, and where its tool calls come from. A warning if they come from nowhere."""
    name = card.get("name") if isinstance(card, dict) else None
    offers = ", ".join(bindings_of(card)) or "no binding"
    agent = f"agent {_short(str(name or 'without a name'))}: {_short(offers)}"
    declared = bool(declared_uris(card))
    seen = "declares tool-call-capture" if declared else "does not declare tool-call-capture"
    if declared and settings.negotiate != "never":
        return f"{agent}; {seen}: its tool calls are captured"
    if settings.negotiate == "always":
        return f"{agent}; {seen}, and is asked for tool calls all the same (negotiate: always)"
    if declared:
        seen += ", but is not asked for tool calls (negotiate: never)"
    elsewhere = [f"from messages ({', '.join(settings.dialects)})"] if settings.dialects else []
    if otlp_url or settings.otlp_grpc:
        elsewhere.append(f"from traces that it sends to {otlp_url or settings.otlp_grpc}")
    if settings.dialects:
        return f"{agent}; {seen}: its tool calls are captured {' and '.join(elsewhere)}"
    if elsewhere:
        return f"warning: {agent}; {seen}: its tool calls are captured only {elsewhere[0]}"
    return f"warning: {agent}; {seen}, and no traces are received: its tool calls are not visible"


def _short(text: str) -> str:
    return one_line(printable(text), _MAX_TEXT)
