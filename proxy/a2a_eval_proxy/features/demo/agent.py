"""A sample agent for an online shop: real tools, rules in place of a model, the tool-call-capture extension.

Run it by hand with `python -m a2a_eval_proxy.features.demo.agent --port 9999`.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click
from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a_tool_capture import CapturingRequestHandler, ToolCallRecorder
from a2a_tool_capture.approvals import message_words
from a2a_tool_capture.recent import Recent
from google.protobuf.json_format import MessageToDict
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from ...errors import UNREACHABLE, ListenError
from ...net.sdk_server import REST_PREFIX, sdk_server
from ...signals import stop_signal
from .planner import Ask, Memory, Plan, make_plan, small_talk
from .tools import Shop

MAX_REMEMBERED = 1000
"""Conversations and open questions kept in memory; the oldest are forgotten first."""


class ShopAgent(AgentExecutor):
    """One shop, many conversations; A2A 1.0 and 0.3 reach it through the same SDK interface."""

    def __init__(self, shop: Shop, recorder: ToolCallRecorder, *, weak: bool = True) -> None:
        self._tools = {name: recorder.tool(tool) for name, tool in shop.tools.items()}
        self._weak = weak
        self._memories: Recent[str, Memory] = Recent(MAX_REMEMBERED)
        self._waiting: Recent[str, Plan] = Recent(MAX_REMEMBERED)
        """Plans that asked the user something, by task id."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task_id, context_id = context.message, context.task_id, context.context_id
        if message is None or task_id is None or context_id is None:
            raise ValueError("a request without a message")
        text = message_words(MessageToDict(message))
        waiting = self._waiting.pop(task_id, None)
        if waiting is None and (answer := small_talk(text)) is not None:
            await event_queue.enqueue_event(new_text_message(answer, context_id=context_id))
            return
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        updater = TaskUpdater(event_queue, task_id, context_id)
        await updater.start_work()
        memory = self._memories.setdefault(context_id, Memory())
        plan = waiting or make_plan(text, memory, self._tools, weak=self._weak)
        asked = await self._follow(plan, text if waiting else None, updater)
        if asked is None:
            await updater.complete()
        else:
            self._waiting[task_id] = plan
            waiting_call = [new_data_part(asked.waiting)] if asked.waiting else []
            await updater.requires_input(updater.new_agent_message([new_text_part(asked.question), *waiting_call]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self._waiting.pop(context.task_id or "", None)
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _follow(self, plan: Plan, received: str | None, updater: TaskUpdater) -> Ask | None:
        """Carry out `plan` from where it stands. Returns the question it stopped at, None at its end.

        Its texts are one artifact, with a chunk for each sentence.
        """
        artifact_id, started = str(uuid.uuid4()), False
        try:
            step = plan.send(received)
            while not isinstance(step, Ask):
                for sentence in re.findall(r".+?(?:[.!?]\s+|$)", step):
                    parts = [new_text_part(sentence)]
                    await updater.add_artifact(parts, artifact_id=artifact_id, name="answer", append=started)
                    started = True
                step = next(plan)
        except StopIteration:
            return None
        return step


def agent_card(url: str) -> AgentCard:
    """The card of an agent that is reached at `url` (no trailing slash)."""
    return AgentCard(
        name="Harbour Coffee customer service",
        description="Sample agent of a2a-eval-proxy: orders, refunds, deliveries and stock of a small shop",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=interface_url, protocol_binding=binding, protocol_version=version)
            for version in ("1.0", "0.3")
            for binding, interface_url in (("JSONRPC", f"{url}/"), ("HTTP+JSON", url + REST_PREFIX))
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(
                id="orders",
                name="Orders and products",
                description="Looks up, changes and refunds orders; knows what is in stock",
                tags=["shop"],
                examples=["Where is order ORD-1001?", "Do you have a kettle?"],
            )
        ],
    )


def request_handler(card: AgentCard, shop: Shop, *, weak: bool = True) -> CapturingRequestHandler:
    """The agent as the SDK serves it; declares the extension on `card`. `weak`: see `planner`."""
    recorder = ToolCallRecorder()
    agent = ShopAgent(shop, recorder, weak=weak)
    return CapturingRequestHandler(agent, InMemoryTaskStore(), card, recorder=recorder)


@asynccontextmanager
async def run_agent(
    *, host: str = "127.0.0.1", port: int = 0, public_url: str | None = None, weak: bool = True
) -> AsyncIterator[str]:
    """Serve the agent inside this process; yields its URL, which the card names too. Port 0 takes a free one.

    `/orders/{order_id}` there is not the agent's: it says what the shop knows of an order, as JSON, for probes.
    `public_url` is for clients that reach it by another name than `host` and `port`; `weak`: see `planner`.
    Raises ListenError (an OSError) where the address is not available.
    """

    shop = Shop()

    def build(url: str) -> tuple[CapturingRequestHandler, AgentCard]:
        card = agent_card((public_url or url).rstrip("/"))
        return request_handler(card, shop, weak=weak), card

    async def order(request: Request) -> JSONResponse:
        known = shop.order_as_it_is(request.path_params["order_id"])
        return JSONResponse(known, status_code=200 if known else 404)

    def with_orders(app: ASGIApp) -> ASGIApp:
        return Router([Route("/orders/{order_id}", order)], default=app)

    async with sdk_server(build, f"{host}:{port}", with_orders) as url:
        yield (public_url or url).rstrip("/")


async def _serve_until_stopped(host: str, port: int, public_url: str | None, *, weak: bool) -> None:
    stopped = stop_signal()
    async with run_agent(host=host, port=port, public_url=public_url, weak=weak) as url:
        click.echo(f"Sample agent ready at {url} (card: {url}/.well-known/agent-card.json)")
        await stopped.wait()


@click.command(help=__doc__.splitlines()[0])
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=9999, show_default=True, help="Port to listen on, 0 for a free one.")
@click.option("--public-url", help="URL the card names. Default: from --host and --port.")
@click.option("--fixed", is_flag=True, help="Without the weaknesses that the sample suites find.")
def main(host: str, port: int, public_url: str | None, fixed: bool) -> None:
    """Exit codes: 0 stopped by the user, 2 bad usage, 3 the address is not available."""
    try:
        asyncio.run(_serve_until_stopped(host, port, public_url, weak=not fixed))
    except ListenError as error:
        click.echo(f"{error}. Try another --host or --port", err=True)
        raise SystemExit(UNREACHABLE) from None


if __name__ == "__main__":
    main()
