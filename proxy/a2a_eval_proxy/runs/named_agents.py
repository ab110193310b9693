"""The agents that a suite names, behind the proxy that `run` sends messages to."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import httpx
from a2a_tool_capture.agent_connection import CARD_TIMEOUT_S
from a2a_tool_capture.secret_references import resolve_header
from tool_call_evaluators.options import or_known


async def unlisted(name: str, proxy: str, headers: Mapping[str, str], tls: ssl.SSLContext | None) -> str | None:
    """Why the proxy has no agent of this name, in a sentence; None if it lists one."""
    sent = {header: resolve_header(header, value) for header, value in headers.items()}
    try:
        async with httpx.AsyncClient(headers=sent, verify=tls or True, timeout=CARD_TIMEOUT_S) as http:
            listed = (await http.get(f"{proxy}/agents")).json()
        known = [str(item["name"]) for item in listed["agents"]]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError, KeyError):
        return (
            f"the suite names the agent {name}, but {proxy}/agents lists none: "
            "give --agent the URL of a proxy with several agents, without a path"
        )
    return (
        None
        if name in known
        else f"the suite names the agent {name}, which {proxy}/agents does not list{or_known(name, known)}"
    )
