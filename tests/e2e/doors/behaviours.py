"""Random behaviours of an agent, the suite that expects some of them, and the agent that shows them all.

The agent writes its JSON itself: libraries of A2A hold numbers as doubles, and the order of keys not at all.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import yaml
from a2a_tool_capture import METADATA_KEY, URI
from a2a_tool_capture.json_values import read_json

TOOLS = ("search", "pay", "refund", "lookup order", "delete_all")
WORDS = (
    "",
    "a",
    "order",
    "é",
    "\u2028",
    "日本",
    "🧾",
    '"',
    "<b>",
    "\\d",
    "null",
    "7",
    "1.0",
    "true",
    "a\nb",
    "&amp;",
    "$any",
)
NUMBERS = (
    0,
    1,
    -1,
    7,
    2.0,
    -3.0,
    0.1,
    -2.5,
    1e22,
    1e-9,
    2**53,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    2**70,
    math.nan,
    -math.inf,
)
RESULTS = (
    "ok",
    "",
    "null",
    '{"status": "sent", "n": 2.0}',
    '{"isError": true}',
    '{"error": "no"}',
    "7",
    "\u2028",
    "é🧾",
)
FAULTS = ("rpc error", "status 500", "not json", "no event")
STATES = ("COMPLETED",) * 16 + ("FAILED", "FAILED", "REJECTED", "INPUT_REQUIRED", "INPUT_REQUIRED", "INPUT_REQUIRED")


@dataclass(frozen=True)
class Behaviour:
    """What the agent does in one turn. `artifacts` are its calls as it reports them, artifact by artifact."""

    text: str
    state: str
    artifacts: tuple[tuple[Any, ...], ...]
    how: str
    """`listed`; `unlisted`: artifacts without the extension; `object`: the calls in place of a list of them."""
    is_message: bool
    in_chunks: bool
    """Streams send each call with a chunk of its own, in place of one artifact."""
    fault: str
    """One of `FAULTS`: the agent does not answer as A2A has it. Empty: it does."""

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The calls that can be read, in the form of a suite."""
        if self.how != "listed" or self.is_message or self.fault:
            return []
        entries = [entry for artifact in self.artifacts for entry in artifact if isinstance(entry, dict)]
        return [entry for entry in entries if entry.get("name")]


@dataclass(frozen=True)
class Conversation:
    case: dict[str, Any]
    turns: tuple[Behaviour, ...]


def value(chance: Random, depth: int = 2) -> Any:
    kind = chance.randrange(10 if depth else 7)
    if kind < 4:
        return chance.choice(NUMBERS)
    if kind < 6:
        return chance.choice(WORDS) + chance.choice(WORDS)
    if kind == 6:
        return chance.choice((None, True, False))
    if kind < 9:
        return arguments(chance, depth - 1)
    return [value(chance, depth - 1) for _ in range(chance.randrange(4))]


def arguments(chance: Random, depth: int = 2) -> dict[str, Any]:
    keys = chance.sample(["id", "amount", "zone", "Ä", "a b", "nested", "z", "to"], chance.randrange(4))
    return {key: value(chance, depth) for key in keys}


def call(chance: Random, number: int) -> Any:
    kind = chance.random()
    if kind < 0.02:
        return chance.choice([{"tool": "pay", "arguments": {}}, "pay", {"name": "", "arguments": {}}])
    made: dict[str, Any] = {"id": f"call_{number}", "name": chance.choice(TOOLS), "arguments": arguments(chance)}
    if kind < 0.2:
        del made["id"]
    if kind > 0.9:
        made["error"] = chance.choice(["no seat", "", "timeout é"])
    elif kind > 0.1:
        made["result"] = chance.choice(RESULTS)
    if 0.3 < kind < 0.34:
        made["arguments"] = json.dumps(made["arguments"])
    if 0.34 < kind < 0.38:
        made["result"] = arguments(chance)
    return made


def behaviour(chance: Random, names_conversation: bool) -> Behaviour:
    """A turn. One that `names_conversation`, whose id later turns need, has an answer."""
    count = chance.choice((0, 0, 1, 1, 2, 2, 3, 5))
    calls = [call(chance, number) for number in range(count)]
    middle = chance.randrange(count + 1)
    artifacts = (tuple(calls[:middle]), tuple(calls[middle:])) if chance.random() < 0.3 else (tuple(calls),)
    how = chance.choice(("listed",) * 18 + ("unlisted", "object"))
    text = " ".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 4)))
    is_message = chance.random() < 0.05
    state = "COMPLETED" if is_message else chance.choice(STATES)
    fault = chance.choice(FAULTS) if chance.random() < 0.06 and not names_conversation else ""
    return Behaviour(text, state, artifacts, how, is_message, chance.random() < 0.4, fault)


def expectation(chance: Random, done: Behaviour) -> dict[str, Any]:
    """What a suite expects of a turn: what the agent does, or a little else."""
    calls = []
    for made in done.calls:
        given = made["arguments"]
        read = read_json(given if isinstance(given, str) else json.dumps(given))
        calls.append({"name": made["name"], "arguments": read})
    kind = chance.randrange(12)
    if calls and kind == 0:
        calls.pop(chance.randrange(len(calls)))
    elif kind == 1:
        calls.append({"name": "pay", "arguments": {"amount": 1}})
    elif calls and kind == 2:
        near = chance.choice(calls)
        near["arguments"] = {key: neighbour(item) for key, item in near["arguments"].items()}
    elif calls and kind == 3:
        any_of = chance.choice(calls)
        any_of["arguments"] = {
            key: {"$one_of": [{"$date": "2026-05-01"}, {"$json": "x"}, item]}
            for key, item in any_of["arguments"].items()
        } | {"also": {"$optional": {"$any": True}}}
    elif calls and kind == 4:
        chance.choice(calls)["succeeded"] = True
    elif calls and kind == 5:
        calls.reverse()
    expect: dict[str, Any] = {"tool_calls": calls}
    if chance.random() < 0.3:
        expect["tool_calls_order"] = [made["name"] for made in calls]
    if chance.random() < 0.3:
        expect["tool_calls_count"] = {"pay": [chance.choice(["=", "<="]), chance.randrange(3)], "*": [">=", 0]}
    if chance.random() < 0.3:
        expect["response_contains"] = done.text.strip() or "a"
    return expect if kind < 11 else {}


def neighbour(item: Any) -> Any:
    return item + 1 if isinstance(item, int) and not isinstance(item, bool) else item


def conversation(number: int, chance: Random) -> Conversation:
    count = chance.choice((1, 1, 1, 2, 3))
    turns = tuple(behaviour(chance, index == 0 and count > 1) for index in range(count))
    planned = []
    for index, done in enumerate(turns):
        expect = expectation(chance, done)
        planned.append({"user": f"{number}.{index}", **({"expect": expect} if expect else {})})
    return Conversation({"id": f"case {number}", "turns": planned}, turns)


def suite_text(conversations: list[Conversation], **more: Any) -> str:
    """The suite; JSON is YAML."""
    return json.dumps({"suite": "doors", **SUITE, "cases": [each.case for each in conversations], **more})


SUITE: dict[str, Any] = yaml.safe_load(
    """
evaluators:
  - tool_error
  - tool_trajectory
  - tool_trajectory: {mode: superset, id: superset}
  - tool_call_args: {subset: true, argument_score: similarity}
  - tool_correctness: {mode: names_and_args}
  - tool_call_order
  - tool_call_count
  - tool_efficiency: {threshold: null}
  - contains
  - tool_error: {scope: conversation, id: all_calls}
gates: {tool_error: 0.2, all_calls: 0.1, superset: {mean: 0.2}}
tolerate: [calls_unseen]
"""
)


@dataclass
class Agent:
    """Shows the behaviours: a message `17.0` asks for the first turn of conversation 17. An ASGI application.

    It speaks A2A 1.0 over JSON-RPC and HTTP+JSON.
    """

    conversations: list[Conversation]
    url: str
    tasks: dict[str, list[Any]] = field(default_factory=dict)
    """The artifacts of tasks that wait for input."""

    @property
    def card(self) -> dict[str, Any]:
        card = {"name": "doors", "capabilities": {"streaming": True, "extensions": [{"uri": URI}]}}
        interfaces = [
            {"url": self.url, "protocolBinding": binding, "protocolVersion": "1.0"}
            for binding in ("JSONRPC", "HTTP+JSON")
        ]
        return {**card, "supportedInterfaces": interfaces}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "GET":
            await respond(send, "application/json", json.dumps(self.card))
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        request = json.loads(body)
        message = request.get("params", request)["message"]
        is_stream = "tream" in (request.get("method") or scope["path"])
        if fault := self.behaviour(message).fault:
            await fail(send, fault, is_stream, request.get("id"))
            return
        asked = any(name == b"a2a-extensions" and URI.encode() in value for name, value in scope["headers"])
        events = self.events(message, asked, is_stream)
        if "jsonrpc" in request:
            events = [{"jsonrpc": "2.0", "id": request["id"], "result": event} for event in events]
        await answer(send, [json.dumps(event, ensure_ascii=False) for event in events], is_stream)

    def behaviour(self, message: Mapping[str, Any]) -> Behaviour:
        number, index = map(int, message["parts"][0]["text"].split("."))
        return self.conversations[number].turns[index]

    def events(self, message: Mapping[str, Any], asked: bool, streams: bool) -> list[dict[str, Any]]:
        """The events of a stream; the last one is also the whole answer."""
        done, index = self.behaviour(message), message["parts"][0]["text"].partition(".")[2]
        context = message.get("contextId") or uuid.uuid4().hex
        if done.is_message:
            answer = {"messageId": uuid.uuid4().hex, "role": "ROLE_AGENT", "parts": [{"text": done.text}]}
            is_alone = len(self.conversations[int(message["parts"][0]["text"].partition(".")[0])].turns) == 1
            return [{"message": answer if is_alone else {**answer, "contextId": context}}]
        task_id = message.get("taskId") or uuid.uuid4().hex
        ids = {"taskId": task_id, "contextId": context}
        artifacts = [
            artifact(done, entries, f"{index}-{place}", asked, done.text if place == 0 else "")
            for place, entries in enumerate(done.artifacts)
        ]
        earlier = self.tasks.pop(task_id, [])
        status = {"state": f"TASK_STATE_{done.state}"}
        if done.state == "INPUT_REQUIRED":
            self.tasks[task_id] = [*earlier, *artifacts]
        task = {"id": task_id, "contextId": context, "status": status, "artifacts": [*earlier, *artifacts]}
        if not streams:
            return [{"task": task}]
        working = {"id": task_id, "contextId": context, "status": {"state": "TASK_STATE_WORKING"}, "artifacts": earlier}
        updates = [update for each in artifacts for update in chunks(each, done.in_chunks and done.how == "listed")]
        events = [{"task": working}, *({"artifactUpdate": {**ids, **update}} for update in updates)]
        return [*events, {"statusUpdate": {**ids, "status": status}}]


def artifact(done: Behaviour, entries: tuple[Any, ...], name: str, asked: bool, text: str) -> dict[str, Any]:
    made: dict[str, Any] = {"artifactId": name, "parts": [{"text": text}]}
    if not asked or not entries:
        return made
    reported: Any = {"calls": list(entries)} if done.how == "object" else list(entries)
    made["metadata"] = {METADATA_KEY: reported}
    return made if done.how == "unlisted" else {**made, "extensions": [URI]}


def chunks(whole: dict[str, Any], divided: bool) -> list[dict[str, Any]]:
    """The updates of a stream. Only calls with ids come one by one: two equal ones without would be the same call."""
    entries = whole.get("metadata", {}).get(METADATA_KEY, [])
    if not divided or len(entries) < 2 or not all(isinstance(entry, dict) and "id" in entry for entry in entries):
        return [{"artifact": whole}]
    first, *more = ({**whole, "metadata": {METADATA_KEY: [entry]}} for entry in entries)
    return [{"artifact": first}, *({"artifact": {**each, "parts": []}, "append": True} for each in more)]


async def fail(send: Any, fault: str, is_stream: bool, request_id: Any) -> None:
    if fault == "status 500":
        await respond(send, "text/plain", "boom", 500)
    elif fault == "rpc error":
        error = {"jsonrpc": "2.0", "id": request_id, "error": {"code": -32000, "message": "boom"}}
        await answer(send, [json.dumps(error)], is_stream)
    elif fault == "not json":
        await answer(send, ["<p>boom</p>"], is_stream)
    else:
        nothing = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {}})
        await answer(send, [] if is_stream else [nothing], is_stream)


async def answer(send: Any, texts: list[str], is_stream: bool) -> None:
    if is_stream:
        await respond(send, "text/event-stream", "".join(f"data: {text}\n\n" for text in texts))
    else:
        await respond(send, "application/json", texts[-1])


async def respond(send: Any, content_type: str, text: str, status: int = 200) -> None:
    headers = [(b"content-type", content_type.encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode("utf-8", "surrogatepass")})
