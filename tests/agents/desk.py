"""The service desk of the shop: `orchestrator` asks `orders` and `refunds`, which asks `orders`, too, all by A2A.

They pass on trace context by OpenTelemetry's SDK, as instrumented agents do. One fault is kept on purpose, marked
FAULT: it is in `refunds`, and the answer of `orchestrator` hides it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import httpx
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a_eval_proxy.features.demo.story import send
from a2a_eval_proxy.features.demo.tools import Shop, Tool, ToolError
from a2a_eval_proxy.net.sdk_server import sdk_server
from a2a_tool_capture import CapturingRequestHandler, ToolCallRecorder
from agents.player import Executor
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

ORCHESTRATOR, ORDERS, REFUNDS = "orchestrator", "orders", "refunds"

Ask = Callable[[str, str], Awaitable[str]]
"""Ask an agent, by its name: returns the text of its answer."""
Tools = Mapping[str, Tool]
Rules = Callable[[str, Ask, Tools], Awaitable[str]]
"""What an agent does about a text, in place of a model. Raises ToolError for what cannot be done."""

_TRACER = TracerProvider().get_tracer("a2a-eval-proxy.demo")
_PROPAGATOR = TraceContextTextMapPropagator()
_ORDER_ID = re.compile(r"\bORD-\d+\b", re.IGNORECASE)
_AMOUNT = re.compile(r"\d+(?:\.\d+)? EUR\b")


# ── what the agents do ──────────────────────────────────────────────────────────────────────────────────────


async def orchestrate(text: str, ask: Ask, tools: Tools) -> str:
    order_id = _order_id(text)
    order = await ask(ORDERS, f"What is in order {order_id}?")
    if "refund" not in text.lower():
        return order
    named = _AMOUNT.search(text)
    answer = await ask(REFUNDS, f"Refund {named[0] if named else 'all'} of order {order_id}, please.")
    reference = re.search(r"REF-\d+", answer)
    if reference is None:
        return answer
    amount = named or _AMOUNT.search(answer)
    return f"Done: {amount[0] if amount else 'all'} refunded for order {order_id}, reference {reference[0]}."


async def describe_order(text: str, ask: Ask, tools: Tools) -> str:
    order = tools["lookup_order"](order_id=_order_id(text))
    items = ", ".join(f"{line['quantity']} x {line['name']}" for line in order["lines"])
    return f"Order {order['order_id']} is {order['status']}: {items}, {order['total_eur']:.2f} EUR in all."


async def refund(text: str, ask: Ask, tools: Tools) -> str:
    order_id = _order_id(text)
    total = _AMOUNT.search(await ask(ORDERS, f"What is in order {order_id}?"))
    if total is None:
        raise ToolError(f"there is no order {order_id}")
    # FAULT: the amount that `text` names is not read; the whole order is refunded.
    done = tools["issue_refund"](order_id=order_id, amount_eur=float(total[0].removesuffix(" EUR")))
    return f"{done['amount_eur']:.2f} EUR refunded, reference {done['refund_id']}."


def _order_id(text: str) -> str:
    named = _ORDER_ID.search(text)
    if named is None:
        raise ToolError("I need the number of an order, such as ORD-1001")
    return named[0].upper()


# ── how they are served ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Desk:
    """The agents that run: `urls` by name. They ask each other at `entrance`, which is set once the proxy runs."""

    urls: Mapping[str, str]
    entrance: str = ""

    def address(self, name: str) -> str:
        """Where an agent is reached through the proxy."""
        return f"{self.entrance}/agents/{name}"


class _DeskAgent(Executor):
    def __init__(self, rules: Rules, tools: Tools, address: Callable[[str], str]) -> None:
        self._rules = rules
        self._tools = tools
        self._address = address

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        if context.message is None or context.task_id is None or context.context_id is None:
            raise ValueError("a request without a message")
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        headers = context.call_context.state["headers"] if context.call_context else {}
        with _TRACER.start_as_current_span("answer", _PROPAGATOR.extract(headers, Context()), SpanKind.SERVER):
            try:
                text = await self._rules(context.get_user_input(), self._ask, self._tools)
            except ToolError as refusal:
                text = f"I am sorry, {refusal}."
        await updater.add_artifact([new_text_part(text)], name="answer")
        await updater.complete()

    async def _ask(self, agent: str, text: str) -> str:
        with _TRACER.start_as_current_span("ask", kind=SpanKind.CLIENT):
            headers: dict[str, str] = {}
            _PROPAGATOR.inject(headers)
            async with httpx.AsyncClient(timeout=httpx.Timeout(60.0), trust_env=False) as http:
                return (await send(http, self._address(agent), text, headers)).response_text


@asynccontextmanager
async def running_desk() -> AsyncIterator[Desk]:
    """The three agents, until the block is left. Raises ListenError if no port is free."""
    async with AsyncExitStack() as stack:
        shop = Shop()
        urls: dict[str, str] = {}
        desk = Desk(urls)
        agents: dict[str, Rules] = {ORCHESTRATOR: orchestrate, REFUNDS: refund, ORDERS: describe_order}
        for name, rules in agents.items():
            build = partial(_built, name, rules, shop.tools, desk.address)
            urls[name] = await stack.enter_async_context(sdk_server(build, "127.0.0.1:0"))
        yield desk


def _built(
    name: str, rules: Rules, tools: Tools, address: Callable[[str], str], url: str
) -> tuple[CapturingRequestHandler, AgentCard]:
    recorder = ToolCallRecorder()
    card = AgentCard(
        name=name.capitalize(),
        description=f"Sample agent of a2a-eval-proxy: {name} of a small shop",
        version="1.0.0",
        supported_interfaces=[AgentInterface(url=f"{url}/", protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id=name, name=name, description=f"{name} of a small shop", tags=["shop"])],
    )
    recorded = {tool: recorder.tool(function) for tool, function in tools.items()}
    agent = _DeskAgent(rules, recorded, address)
    return CapturingRequestHandler(agent, InMemoryTaskStore(), card, recorder=recorder), card
