from __future__ import annotations

import shlex
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import click

from ...cli.command import command, run_async
from ...cli.options import DrivenAgentOptions, ReceivedTracesOptions, agent_option
from ...cli.traces import receiving
from ...errors import ListenError
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option
from ...settings.parts import DEFAULT_OTLP
from .frameworks import CAN_BE_NAMED

if TYPE_CHECKING:
    from ...runs.drive import AgentOptions


class DoctorOptions(ReceivedTracesOptions, DrivenAgentOptions):
    agent: str = option(types.AGENT, "URL of the agent.", required=True, positional=True)
    message: str | None = option(types.TEXT, "Message that makes the agent call a tool. Default: as for `init`.")
    framework: str | None = option(
        types.one_of(*(framework.key for framework in CAN_BE_NAMED)), "The agent's framework. Default: as recognised."
    )
    otlp: str | None = agent_option(types.ADDRESS, "Where to receive the agent's traces (OTLP/HTTP).", DEFAULT_OTLP)


@command(DoctorOptions)
def doctor(options: DoctorOptions) -> bool:
    """Say what is seen of an agent's tool calls, and what to add.

    Sends one message to the agent at URL, and waits for traces that it sends to --otlp. Names the way by which calls
    are seen, the framework, and the lines that show the rest. The agent's tools really run. Add the lines, restart the
    agent, and run it again.

    \b
    Exit codes: 0 all calls are seen, 1 not all, 2 bad usage, 3 agent unreachable.
    Example: a2a-eval-proxy doctor localhost:9999
    """
    text, all_seen = run_async(_diagnose(options))
    click.echo(text)
    return all_seen


async def _diagnose(options: DoctorOptions) -> tuple[str, bool]:
    from ...runs.first_message import send_first
    from .diagnosis import diagnose

    agent = options.agent_options()
    named = next((one for one in CAN_BE_NAMED if one.key == options.framework), None)
    otlp, deaf = options.otlp or "", ""
    async with AsyncExitStack() as stack:
        try:
            tracing = await stack.enter_async_context(receiving(options))
        except ListenError as error:  # a `serve` may have it, and the extension may show all
            host, _, port = otlp.rpartition(":")
            tracing, otlp, deaf = None, f"{host}:{int(port) + 1}", f"not received ({error})"
        first = await send_first(agent, options.message, tracing)
        (turn,) = first.turns
        scopes = [span.scope for span in tracing.spans(turn["turn_id"])] if tracing else []
    own = otlp if otlp != DEFAULT_OTLP else None
    given = {"--message": options.message, "--framework": options.framework, "--otlp": own}
    again = "".join(f" {name} {shlex.quote(value)}" for name, value in given.items() if value)
    server = await _server(agent)
    return diagnose(agent.url, first.card, first.text, turn, scopes, otlp, named, again, server, deaf)


async def _server(agent: AgentOptions) -> str:
    """What a response of the agent says of its server; "" without HTTP."""
    import httpx
    from a2a_tool_capture.environment_proxies import EnvironmentTransport

    try:
        async with httpx.AsyncClient(transport=EnvironmentTransport(agent.tls or True)) as http:
            headers = (await http.get(f"{agent.url}/.well-known/agent-card.json")).headers
    except (httpx.HTTPError, httpx.UnsupportedProtocol):
        return ""
    return " ".join(headers.get(name, "") for name in ("server", "x-powered-by"))


FEATURE = Feature(commands=[doctor])
