"""The sample agent: its tools, its plans, the extension on the wire, its suite and its command."""

from __future__ import annotations

import asyncio
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import a2a_eval_proxy.features.demo
import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers import new_text_message
from a2a.types import CancelTaskRequest, Role, SendMessageRequest, TaskState
from a2a_eval_proxy.features.check.rules import CheckVerdict, RuleStatus
from a2a_eval_proxy.features.demo.agent import run_agent
from a2a_eval_proxy.features.demo.planner import Ask, Memory, make_plan, small_talk
from a2a_eval_proxy.features.demo.tools import Shop, Tool, ToolError
from a2a_tool_capture import CaptureClient
from hypothesis import given
from hypothesis import strategies as st
from support.checking import check, rules_with
from tool_call_evaluators.evaluator import evaluate
from tool_call_evaluators.suite import Suite, load_suite

SUITE = Path(a2a_eval_proxy.features.demo.__file__).with_name("suite.yaml")


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[str]:
    async with run_agent(tmp_path / "shop.db") as url:
        yield url


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop(Path(":memory:"))
    yield shop
    shop.close()


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_looking_up(shop: Shop) -> None:
    customer = shop.find_customer("Ada@example.com")
    orders = shop.list_orders(customer["customer_id"])["orders"]
    assert [order["order_id"] for order in orders] == ["ORD-1001", "ORD-1002"]
    order = shop.lookup_order("ORD-1002")
    assert order["total_eur"] == 29.0
    assert shop.estimate_delivery(order["tracking_number"])["arrives_on"] == "2026-10-16"
    assert shop.search_products("grinder")["products"][0]["sku"] == "GRN-02"
    assert shop.search_products("teapot") == {"products": []}
    assert shop.check_stock("GRN-02") == {"sku": "GRN-02", "in_stock": 0, "restock_on": "2026-11-20"}


@pytest.mark.parametrize(
    ("tool", "arguments", "refusal"),
    [
        ("find_customer", {"email": "x@example.com"}, "no customer has the email x@example.com"),
        ("lookup_order", {"order_id": "ORD-9999"}, "there is no order ORD-9999"),
        ("check_stock", {"sku": "NO-1"}, "there is no product NO-1"),
        ("estimate_delivery", {"tracking_number": "TRK-0"}, "no carrier knows TRK-0"),
        ("issue_refund", {"order_id": "ORD-1001", "amount_eur": 1}, "ORD-1001 is shipped, not delivered"),
        ("issue_refund", {"order_id": "ORD-1004", "amount_eur": 1}, "delivered more than 30 days ago"),
        ("issue_refund", {"order_id": "ORD-1002", "amount_eur": 29.01}, "29.01 EUR is not within"),
        ("issue_refund", {"order_id": "ORD-1002", "amount_eur": 0}, "0.00 EUR is not within"),
        ("update_address", {"order_id": "ORD-1001", "address": "here"}, "ORD-1001 is already shipped"),
        ("cancel_order", {"order_id": "ORD-1002"}, "ORD-1002 is already delivered"),
    ],
)
def test_refusals(shop: Shop, tool: str, arguments: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ToolError, match=refusal):
        shop.tools[tool](**arguments)


def test_changes_are_kept_and_can_be_repeated(tmp_path: Path) -> None:
    for _ in range(2):
        shop = Shop(tmp_path / "shop.db")
        assert shop.issue_refund("ORD-1005", 64.0)["refund_id"] == "REF-1005"
        assert shop.update_address("ORD-1006", "elsewhere")["address"] == "elsewhere"
        assert shop.cancel_order("ORD-1003")["status"] == "cancelled"
        shop.close()
    with sqlite3.connect(tmp_path / "shop.db") as database:
        assert database.execute("SELECT order_id, amount_eur FROM refunds").fetchall() == [("ORD-1005", 64.0)]
        status = database.execute("SELECT status FROM orders WHERE order_id = 'ORD-1003'").fetchone()
    database.close()
    assert status == ("cancelled",)


# ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────

INTENTS = ["order", "refund", "cancel", "address", "kettle", "grinder", "how many", "in stock", "when", "arrive"]
DETAILS = ["ORD-1001", "ord-1004", "ORD-9", "ada@example.com", "x@y.zz", "to", "Bath", "yes", "hello", "?", "\n", "☃"]
WORDS = st.sampled_from([*INTENTS, *DETAILS])


@given(st.lists(WORDS).map(" ".join), st.lists(WORDS, min_size=1).map(" ".join), st.booleans())
def test_a_plan_ends_and_calls_nothing_after_its_last_words(text: str, answer: str, weak: bool) -> None:
    if small_talk(text) is not None:
        return
    shop = Shop(Path(":memory:"))
    steps: list[Any] = []

    def noted(tool: Tool) -> Tool:
        def call(**arguments: Any) -> dict[str, Any]:
            steps.append(tool)
            return tool(**arguments)

        return call

    plan = make_plan(text, Memory(), {name: noted(tool) for name, tool in shop.tools.items()}, weak=weak)
    try:
        step = next(plan)
        while len(steps) < 10:
            steps.append(step)
            step = plan.send((answer if len(steps) < 3 else "ORD-1002 yes") if isinstance(step, Ask) else None)
    except StopIteration:
        pass
    shop.close()
    assert len(steps) < 10
    assert isinstance(steps[-1], str)
    for earlier, later in pairwise(steps):
        assert not (callable(earlier) and isinstance(later, Ask)), "the call would not be reported in its turn"
        assert not (isinstance(earlier, str) and callable(later)), "the call would not be reported at all"


# ── the extension on the wire ───────────────────────────────────────────────────────────────────────────────


async def test_a_refused_call_is_reported_with_its_error(agent: str) -> None:
    async with CaptureClient(agent) as client:
        turn = await client.send("Where is order ORD-9999?")
    assert turn.text == "I am sorry, there is no order ORD-9999."
    assert [(call.name, call.result, call.error) for call in turn.tool_calls] == [
        ("lookup_order", None, "there is no order ORD-9999")
    ]


async def test_a_question_can_be_cancelled(agent: str) -> None:
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, agent).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        request = SendMessageRequest(message=new_text_message("Where is my order?", role=Role.ROLE_USER))
        (event,) = [event async for event in client.send_message(request)]
        assert event.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        task = await client.cancel_task(CancelTaskRequest(id=event.task.id))
    assert task.status.state == TaskState.TASK_STATE_CANCELED


@pytest.mark.parametrize("message", ["Where is order ORD-1001?", "Where is my order?", "Where is order ORD-9999?"])
async def test_the_agent_conforms_to_the_extension(agent: str, message: str) -> None:
    """An answer, a question, a refused call."""
    report = await check(agent, message)
    assert rules_with(report, RuleStatus.FAILED) | rules_with(report, RuleStatus.WARNING) == set()
    assert report.verdict is (CheckVerdict.INCONCLUSIVE if message == "Where is my order?" else CheckVerdict.CONFORMING)


# ── the suite ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def suite() -> Suite:
    return load_suite(SUITE)


async def failed_metrics(agent: str, suite: Suite, *, streaming: bool) -> dict[str, set[str]]:
    """The metrics that failed, by case."""
    failed: dict[str, set[str]] = {}
    async with CaptureClient(agent, streaming=streaming) as client:
        for case in suite.cases:
            conversation = client.conversation()
            for number, planned in enumerate(case.turns):
                turn = await conversation.send(planned.user)
                assert turn.findings == ()
                eval_case = case.eval_case(number, tool_calls=turn.tool_calls, response_text=turn.text)
                for result in await evaluate(eval_case, suite.build_evaluators()):
                    assert result.score is not None
                    if not result.passed:
                        failed.setdefault(case.id, set()).add(result.evaluator)
    return failed


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_suite_finds_the_three_weaknesses_and_nothing_else(agent: str, suite: Suite, streaming: bool) -> None:
    assert await failed_metrics(agent, suite, streaming=streaming) == {
        "partial-refund": {"tool_trajectory", "tool_call_args"},
        "cancellation": {"tool_trajectory", "tool_call_args", "tool_error"},
        "double-question": {"tool_trajectory"},
    }


async def test_without_the_weaknesses_nothing_fails(tmp_path: Path, suite: Suite) -> None:
    async with run_agent(tmp_path / "shop.db", weak=False) as url:
        assert await failed_metrics(url, suite, streaming=True) == {}


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────

COMMAND = [sys.executable, "-m", "a2a_eval_proxy.features.demo.agent"]


async def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "--port", "0", "--db", str(database), "--public-url", "http://agent.test/", stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    assert line.startswith("Sample agent ready at http://agent.test (card: ")
    assert database.exists()
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0


def test_the_command_says_what_is_in_the_way(tmp_path: Path) -> None:
    junk = tmp_path / "junk.db"
    junk.write_text("this is no database, and long enough to be distinguished" * 10)
    no_database = subprocess.run([*COMMAND, "--port", "0", "--db", junk], capture_output=True, text=True, check=False)
    assert no_database.returncode == 3
    assert f"cannot use {junk} as the shop's database: file is not a database" in no_database.stderr

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        no_port = subprocess.run([*COMMAND, "--port", port], capture_output=True, text=True, check=False)
    assert no_port.returncode == 3
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in no_port.stderr
