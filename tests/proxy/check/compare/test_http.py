"""`check --via`: nothing differs behind the real proxy; each fault of a broken one is named, and nothing else."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import pytest_asyncio
from a2a_eval_proxy.check.compare.comparison import RUNNING, ComparisonReport, compare_sides
from a2a_eval_proxy.check.compare.report import comparison_junit
from a2a_eval_proxy.check.probe.client import ProbeClient
from a2a_eval_proxy.cli import main
from a2a_eval_proxy.errors import ConfigError
from a2a_tool_capture import ToolCall
from a2a_tool_capture.client import AgentUnreachableError
from agents.broken_proxy import Breakage, BrokenProxy, Events, without
from agents.expected_agent import expected_agent
from agents.grpc_agent import grpc_agent
from agents.scenario_agent import AgentOptions
from agents.serving import ServerThread
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S

EXTENSION_URI = "https://arksim.arklex.ai/a2a/tool-call-capture/v1"
MESSAGE = "Where is my order?"
EXTENSION = ("a2a-extensions", "x-a2a-extensions")


async def compared(
    url: str, via: str, message: str = MESSAGE, headers: dict[str, str] | None = None
) -> ComparisonReport:
    async with ProbeClient(headers or {}, PATIENCE_S) as client:
        return await compare_sides(url, via, client, [message], lambda what: None)


def faults(report: ComparisonReport) -> set[tuple[str, str]]:
    """The operation and place of each difference."""
    return {(one.operation, delta.what) for one in report.comparisons for delta in one.faults}


@pytest.fixture(scope="module")
def agent():
    calls = {MESSAGE: [ToolCall(id="1", name="look_up", arguments={"order": "1"})]}

    def build(url: str) -> Any:
        app, numbers = expected_agent(url, calls), itertools.count(1000)

        async def named(scope: Any, receive: Any, send: Any) -> None:
            varies = False

            async def sending(message: Any) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], (b"x-agent", b"shop")]
                elif varies:
                    message["body"] = message["body"].replace(b'"done"', b'"%04d"' % next(numbers))
                await send(message)

            async def receiving() -> Any:
                nonlocal varies
                message = await receive()
                varies = varies or b"How late" in message.get("body", b"")
                return message

            await app(scope, receiving, sending)

        return named

    with ServerThread(build) as agent:
        yield agent


@pytest.fixture(scope="module")
def proxies(agent):
    """One broken proxy; what it breaks changes from test to test."""
    made: list[BrokenProxy] = []

    def build(url: str) -> Any:
        made.append(BrokenProxy(agent.url, url))
        return made[0].app

    with ServerThread(build) as server:
        yield made[0], server.url


@pytest_asyncio.fixture
async def behind(agent, proxies):
    async def run(breakage: Breakage, **options: Any) -> ComparisonReport:
        proxy, url = proxies
        proxy.breakage = breakage
        return await compared(agent.url, url, **options)

    return run


async def test_nothing_differs_behind_the_real_proxy_over_any_interface(tmp_path) -> None:
    async with grpc_agent() as agent, running_proxy(agent.url, tmp_path) as proxy:
        report = await compared(agent.url, proxy.url, "chunks please")

    assert faults(report) == set()
    assert report.notes == ()  # tool calls were seen, so that their removal was compared, too
    operations = {name: [one.operation for one in report.comparisons if one.interface == name] for name in INTERFACES}
    for name, done in operations.items():
        assert set(done) - {RUNNING} == OPERATIONS - NOT_IN.get(name, set()), name
    assert {delta.what for one in report.comparisons for delta in one.designed} == {
        "header cache-control",
        "header etag",
        "header vary",
    }


INTERFACES = [f"{binding} {version}" for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON", "GRPC")]
OPERATIONS = {
    *("send", "stream", "get", "list", "subscribe", "cancel", "extended card"),
    *(f"{name} (asking for tool calls)" for name in ("send", "stream", "get")),
    *(f"{verb} push configuration" for verb in ("create", "get", "list", "delete")),
    *("unknown task", "unknown method", "malformed body", "wrong version", "wrong content type"),
}
NOT_IN = {
    "JSONRPC 0.3": {"list"},
    "HTTP+JSON 0.3": {"list"},
    "GRPC 0.3": {"list", "wrong content type"},
    "GRPC 1.0": {"wrong content type"},
}


async def test_a_proxy_that_breaks_nothing_has_no_differences(behind) -> None:
    report = await behind(Breakage())
    assert faults(report) == set()
    assert report.notes == ()


def merged(events: Events) -> Events:
    return [events[0] + b"\r\n" + events[1], *events[2:]]


def renamed(answer: Any) -> Any:
    for artifact in answer.get("result", {}).get("task", {}).get("artifacts", []):
        artifact["parts"][0]["text"] = "other"
    return answer


def without_data(answer: Any) -> Any:
    answer.get("error", {}).pop("data", None)
    return answer


def one_id(answer: Any) -> Any:
    """Every task is the same task."""
    if "id" in answer.get("result", {}):
        answer["result"]["id"] = "6c2b1b2e-0000-4000-8000-000000000000"
    return answer


SENDS, STREAMS, GETS = ({name, f"{name} (asking for tool calls)"} for name in ("send", "stream", "get"))
SILENT = {"send", "stream", "get", "list"}
ERRORS = {"subscribe", "cancel", "unknown task", "wrong version", "wrong content type", "extended card"}
NO_PARAMETERS = {"unknown method", "malformed body"}
CARD = "agent card /.well-known/agent-card.json"
OLD_CARD = "agent card /.well-known/agent.json"
EVERYWHERE = {*SENDS, *STREAMS, *GETS, *ERRORS, *NO_PARAMETERS, "list", CARD, OLD_CARD}


@pytest.mark.parametrize(
    ("breakage", "expected"),
    [
        (Breakage(headers=lambda headers: {**headers, "x-cache": "HIT"}), {"header x-cache": EVERYWHERE}),
        (Breakage(headers=without("x-agent")), {"header x-agent": EVERYWHERE}),
        (Breakage(body=without_data), {"body: error.data": ERRORS}),
        (Breakage(events=merged), {"events": STREAMS, "event 1": STREAMS}),
        (Breakage(events=lambda events: events[:-1]), {"events": STREAMS}),
        (Breakage(events=lambda events: [*events, events[-1]]), {"events": STREAMS}),
        (
            Breakage(events=lambda events: [events[0], events[2], events[1]]),
            {"events": STREAMS, **{f"event 2: result.{name}Update": STREAMS for name in ("artifact", "status")}},
        ),
        (
            Breakage(events=lambda events: [*events[:-1], events[-1] + b"\r\nid: 7"]),
            {"event 3: field id": STREAMS},
        ),
        (Breakage(body=renamed), {"body: result.task.artifacts[0].parts[0].text": SENDS}),
        (Breakage(body=one_id), {"body: result.id": GETS}),
        (Breakage(status=lambda status: 201 if status == 200 else status), {"status": EVERYWHERE - {OLD_CARD}}),
        (Breakage(request_headers=without(*EXTENSION)), {"tool calls": {*SENDS, *STREAMS, *GETS} - SILENT}),
        (
            Breakage(request_headers=lambda headers: {**headers, "a2a-extensions": EXTENSION_URI}),
            {"tool calls": SILENT},
        ),
        (Breakage(card=lambda card: {**card, "version": "2"}), {"body: version": {CARD}}),
        (Breakage(card=lambda card: {**card, "supportedInterfaces": []}), {"interface": {""}}),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
async def test_each_fault_of_a_proxy_is_named(behind, breakage, expected) -> None:
    found: dict[str, set[str]] = {}
    for operation, what in faults(await behind(breakage)):
        found.setdefault(what, set()).add(operation)
    if "tool calls" in expected:  # what they change in the bodies is named, too
        found = {what: operations for what, operations in found.items() if what == "tool calls"}
    assert found == expected


async def test_what_varies_from_answer_to_answer_proves_nothing_and_is_named(behind, agent, proxies) -> None:
    """The proxy passes all; the agent's own answers differ."""
    report = await behind(Breakage(), message="How late is it?")
    assert {(one.operation, *one.varies) for one in report.comparisons if one.varies} == {
        *((name, "body: result.task.artifacts[0].parts[0].text") for name in SENDS),
        *((name, "event 2: result.artifactUpdate.artifact.parts[0].text") for name in STREAMS),
    }
    assert faults(report) == set()


async def test_what_the_real_proxy_documents_differs_by_design(tmp_path) -> None:
    """The agent shows tool calls unasked, and the proxy refuses webhooks."""
    async with (
        grpc_agent(AgentOptions(gated=False)) as agent,
        running_proxy(agent.url, tmp_path, push="refuse") as proxy,
    ):
        report = await compared(agent.url, proxy.url, "chunks please")
    assert faults(report) == set()
    removed = [one for one in report.comparisons if any(delta.what == "tool calls" for delta in one.designed)]
    assert {(one.interface, one.operation) for one in removed} == {
        (name, operation)
        for name in INTERFACES
        for operation in ("send", "stream", "get", *([] if name.endswith("0.3") else ["list"]))
    }
    refused = {one.operation for one in report.comparisons for delta in one.designed if "--push refuse" in delta.design}
    operations = {f"{verb} push configuration" for verb in ("create", "get", "list")}
    assert refused == {*operations, CARD, OLD_CARD, "extended card", "malformed body"}


async def test_an_agent_that_has_only_grpc_behind_the_real_proxy(tmp_path) -> None:
    async with grpc_agent() as agent:
        url = f"grpc://{agent.address}"
        async with running_proxy(url, tmp_path, negotiate="always") as proxy:
            report = await compared(url, f"grpc://{proxy.grpc_address}", "chunks please")
    assert report.passed
    assert {one.interface for one in report.comparisons} == {"GRPC 1.0", "GRPC 0.3"}


async def test_what_was_not_compared_is_no_success(agent) -> None:
    nowhere = [{"url": "http://127.0.0.1:1/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}]
    with chain(agent.url, Breakage(card=lambda card: {**card, "supportedInterfaces": nowhere}), Breakage()) as urls:
        report = await compared(*urls)
    assert faults(report) == set()
    assert not report.passed
    assert 'message="no interface was compared"' in comparison_junit(report)
    assert "HTTP+JSON 1.0: the agent does not answer at http://127.0.0.1:1/: connection refused" in report.notes[0]


# ── cards ───────────────────────────────────────────────────────────────────────────────────────────────────


SIGNED = {"signatures": [{"protected": "e30", "signature": "AAAA"}]}


@contextmanager
def chain(agent: str, *breakages: Breakage) -> Iterator[list[str]]:
    """The URLs of proxies, each in front of the one before it, the first in front of `agent`."""
    with ExitStack() as stack:
        urls = [agent]
        for breakage in breakages:

            def build(url: str, breakage: Breakage = breakage) -> Any:
                proxy = BrokenProxy(urls[-1], url)
                proxy.breakage = breakage
                return proxy.app

            urls.append(stack.enter_context(ServerThread(build)).url)
        yield urls[1:]


async def test_a_proxy_that_keeps_the_signatures_of_a_changed_card_is_named(agent) -> None:
    sign = Breakage(card=lambda card: card | SIGNED)
    with chain(agent.url, sign, Breakage()) as urls:
        kept = await compared(*urls)
    with chain(agent.url, sign, Breakage(card=without("signatures"))) as urls:
        removed = await compared(*urls)
    assert faults(kept) == {(CARD, "signatures")}
    assert faults(removed) == set()
    (designed,) = (delta for one in removed.comparisons for delta in one.designed)
    assert designed.what == "body: signatures"
    assert "as they would not verify" in designed.design


async def test_what_is_no_proxy_of_the_agent_is_one_sentence(agent, proxies) -> None:
    proxy, url = proxies
    proxy.breakage = Breakage(card=lambda card: {**card, "name": "Other"})
    with pytest.raises(ConfigError, match=f"--via {url} is a proxy of another agent: its card names 'Other', that of"):
        await compared(agent.url, url)
    with pytest.raises(ConfigError, match="is the URL of the agent itself"):
        await compared(agent.url, agent.url + "/")
    with pytest.raises(ConfigError, match="expected http or grpc URLs"):
        await compared("openai:http://127.0.0.1:1", agent.url)
    with pytest.raises(ConfigError, match="has no agent card: expected the http URL of the proxy"):
        await compared(agent.url, "grpc://127.0.0.1:1")
    with pytest.raises(AgentUnreachableError, match=r"/agent-card\.json: cannot connect"):
        await compared(agent.url, "http://127.0.0.1:1")


# ── the report ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def command(agent, proxies, capsys, monkeypatch):
    def run(breakage: Breakage, *arguments: str) -> tuple[int, str]:
        proxy, url = proxies
        proxy.breakage = breakage
        options = ("--header", "Authorization: Bearer sesame-sesame", "--message", MESSAGE)
        monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", "check", agent.url, "--via", url, *options, *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, capsys.readouterr().out

    return run


ECHO = Breakage(headers=lambda headers: {**headers, "x-echo": "Bearer sesame-sesame"})


def test_the_report_names_place_and_both_values_and_masks_credentials(command) -> None:
    code, text = command(ECHO)
    assert code == 1
    assert "DIFFERENT header x-echo\n" in text
    assert "  in       JSONRPC 1.0: unknown task, unknown method, malformed body" in text
    assert "  direct   (missing)\n  proxied  ***\n" in text
    assert "sesame" not in text


def test_without_differences_the_exit_code_is_0(command) -> None:
    code, text = command(Breakage())
    assert code == 0
    assert "compared     JSONRPC 1.0: 15 operations\n\nno differences\n" in text


def test_the_report_as_json_and_junit(command) -> None:
    code, text = command(ECHO, "--format", "json")
    report = json.loads(text)
    assert (code, report["verdict"][-11:]) == (1, "differences")
    (send,) = (one for one in report["compared"] if (one["interface"], one["operation"]) == ("JSONRPC 1.0", "send"))
    assert send["differences"] == [{"what": "header x-echo", "direct": "(missing)", "proxied": "***"}]

    _, text = command(ECHO, "--format", "junit")
    suite = ET.fromstring(text)
    (failure,) = suite.findall(".//testcase[@classname='JSONRPC 1.0'][@name='send']/failure")
    assert failure.text == "header x-echo: direct (missing), proxied ***"


def test_a_card_key_is_not_for_a_comparison(command, capsys) -> None:
    code, _ = command(Breakage(), "--card-key", "key.pem")
    assert code == 2
