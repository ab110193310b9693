"""Agents of real frameworks with fake models, over A2A: the same tool calls, whatever reports them.

Each is driven by the a2a-sdk client through a proxy process, and exports traces to it by the instrumentation that
people use. A client that asks for nothing must get nothing of the extension.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest
from a2a_tool_capture import URI
from e2e.frameworks import trip
from support.processes import ChildProcess
from support.provision import python_environment
from support.proxy import Proxy, Turn

pytestmark = pytest.mark.installs

PROGRAMS = Path(__file__).parents[1] / "frameworks"
EXTENSION = Path(__file__).parents[3] / "extension"

INSTRUMENTATIONS = {
    "pydantic_ai": ["native"],
    "openai_agents": ["openinference", "openllmetry"],
    "langchain": ["openinference", "openllmetry", "both"],
    "google_adk": ["native"],
}
COMBINATIONS = [
    (framework, extension, instrumentation)
    for framework, instrumentations in INSTRUMENTATIONS.items()
    for instrumentation in (None, *instrumentations)
    for extension in (True, False)
    if not extension or instrumentation in (None, instrumentations[-1])  # one together with the extension will do
]
CONVERSATION = ("Paris", "Rome")
AT_ONCE = ("Oslo", "Lima", "Cairo")

Trips = dict[str, Turn]
"""The turn in which a trip to a city was asked for, by city."""

GetProgram = Callable[[str], ChildProcess]
GetTrips = Callable[[str, bool, str | None], Trips]


@pytest.fixture(scope="module")
def programs() -> Iterator[GetProgram]:
    """The running program of a framework, which serves one agent after the other."""
    with ExitStack() as until_end:

        @cache
        def get(framework: str) -> ChildProcess:
            command = [python_environment("frameworks"), PROGRAMS / f"with_{framework}.py"]
            # Not this folder's: its package `agents` is the OpenAI SDK's name too.
            return until_end.enter_context(ChildProcess(command, environment={"PYTHONPATH": str(EXTENSION)}))

        yield get


@pytest.fixture(scope="module")
def trips_of(programs: GetProgram, tmp_path_factory: pytest.TempPathFactory) -> GetTrips:
    """What the proxy made of a conversation, and of conversations at once, with the agent of a combination."""

    @cache
    def get(framework: str, extension: bool, instrumentation: str | None) -> Trips:
        store = tmp_path_factory.mktemp("store") / "turns.db"
        with behind_proxy(programs(framework), extension, instrumentation, store) as proxy:
            asyncio.run(converse(proxy.url))
            proxy.flush()
            return {turn["user_text"].split()[-1]: turn for turn in proxy.turns()}

    return get


@contextmanager
def behind_proxy(
    program: ChildProcess, extension: bool, instrumentation: str | None, store: Path, *more: str
) -> Iterator[Proxy]:
    flags = [*(["--extension"] if extension else []), *more]
    flags += ["--instrumentation", instrumentation] if instrumentation else []
    url = program.read_line().removeprefix("listening on ")
    options = ["--expect-traces", "--trace-wait", "30"] if instrumentation else []
    with Proxy(url, store, *options, telemetry=True) as proxy:
        assert program.ask(shlex.join([*flags, "--receiver", proxy.otlp_url or ""])) == "ready"
        try:
            yield proxy
        finally:
            program.say("end")


async def converse(url: str, at_once: Sequence[str] = AT_ONCE) -> None:
    """One conversation about two cities, then conversations at once."""
    async with httpx.AsyncClient(trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)

        async def ask(city: str, conversation: str) -> None:
            message = Message(
                message_id=str(uuid.uuid4()),
                role=Role.ROLE_USER,
                context_id=conversation,
                parts=[Part(text=f"Plan a trip to {city}")],
            )
            events = [str(event) async for event in client.send_message(SendMessageRequest(message=message))]
            assert trip.ANSWER in "".join(events)
            assert URI not in "".join(events)

        for city in CONVERSATION:
            await ask(city, "one conversation")
        await asyncio.gather(*(ask(city, f"conversation about {city}") for city in at_once))


def wanted(city: str) -> list[list[tuple[Any, ...]]]:
    """Name, arguments and result of each call, None for the one that fails; those made at once in any order."""
    answers: dict[str, Any] = {
        "get_weather": f"Sunny, 21 metric in {city}",
        "search_flights": {"flights": [{"to": city, "price": 512.5}], "count": 3},
        "book_hotel": None,
    }
    steps = []
    while calls := trip.calls_asked_for(city, len(steps)):
        steps.append(in_any_order([(call.name, call.arguments, answers[call.name]) for call in calls]))
    return steps


def in_steps(turn: Turn) -> list[list[tuple[Any, ...]]]:
    """The calls of a turn in the form of `wanted`. Which of two calls at once begins first is the framework's."""
    left = [(call["name"], call["arguments"], as_json(call["result"])) for call in turn["tool_calls"]]
    steps = []
    for step in wanted("anywhere"):
        steps.append(in_any_order(left[: len(step)]))
        del left[: len(step)]
    return [*filter(None, steps), *([left] if left else [])]


def hints(framework: str, extension: bool, instrumentation: str | None) -> set[str]:
    """Codes of the findings of a turn.

    LangChain's and google-adk's tools are recorded by the decorator, which cannot know the model's ids of calls and
    makes its own; their traces have the model's. The other agents record the model's ids, or their traces have none.
    """
    if extension:
        return {"paired_across_ids"} if instrumentation and framework in ("langchain", "google_adk") else set()
    if instrumentation:
        return set()
    return {"no_capture", "dialect_not_read"} if framework == "google_adk" else {"no_capture"}


def in_any_order(calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(calls, key=repr)


def as_json(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except ValueError:
        return text


@pytest.mark.parametrize(("framework", "extension", "instrumentation"), COMBINATIONS)
class TestEveryCombination:
    def test_yields_the_same_calls(
        self, trips_of: GetTrips, framework: str, extension: bool, instrumentation: str | None
    ) -> None:
        trips = trips_of(framework, extension, instrumentation)
        assert trips.keys() == {*CONVERSATION, *AT_ONCE}
        silent = not extension and not instrumentation
        assert {city: in_steps(turn) for city, turn in trips.items()} == {
            city: [] if silent else wanted(city) for city in trips
        }

    def test_knows_which_call_failed(
        self, trips_of: GetTrips, framework: str, extension: bool, instrumentation: str | None
    ) -> None:
        for turn in trips_of(framework, extension, instrumentation).values():
            failed = [call["name"] for call in turn["tool_calls"] if call["error"]]
            assert failed == (["book_hotel"] if extension or instrumentation else [])

    def test_says_what_it_learnt_from_where(
        self, trips_of: GetTrips, framework: str, extension: bool, instrumentation: str | None
    ) -> None:
        for turn in trips_of(framework, extension, instrumentation).values():
            capture, calls = turn["capture"], len(turn["tool_calls"])
            assert capture["matched_by_id"] + capture["matched_by_signature"] == (
                calls if extension and instrumentation else 0
            )
            assert capture["trace_only"] == (0 if extension else calls)
            codes = {finding["code"] for finding in turn["findings"]}
            assert codes == hints(framework, extension, instrumentation)


@pytest.mark.parametrize(
    ("framework", "instrumentation"),
    [("google_adk", "native"), ("langchain", "openinference"), ("langchain", "openllmetry")],
)
def test_an_agent_that_does_not_continue_the_trace_is_found_by_the_conversation_it_names(
    framework: str, instrumentation: str, programs: GetProgram, tmp_path: Path
) -> None:
    with behind_proxy(programs(framework), False, instrumentation, tmp_path / "turns.db", "--own-traces") as proxy:
        asyncio.run(converse(proxy.url))
        proxy.flush()
        turns = proxy.turns()
    assert len(turns) == len(CONVERSATION + AT_ONCE)
    for turn in turns:
        assert in_steps(turn) == wanted(turn["user_text"].split()[-1])
        assert turn["findings"] == []


def test_an_agent_whose_traces_name_nothing_is_found_by_being_alone_in_time(
    programs: GetProgram, tmp_path: Path
) -> None:
    with behind_proxy(programs("pydantic_ai"), False, "native", tmp_path / "turns.db", "--own-traces") as proxy:
        asyncio.run(converse(proxy.url, at_once=()))
        proxy.flush()
        turns = proxy.turns()
    assert [in_steps(turn) for turn in turns] == [wanted(city) for city in CONVERSATION]
    assert {finding["code"] for turn in turns for finding in turn["findings"]} == {"correlated_by_time"}
