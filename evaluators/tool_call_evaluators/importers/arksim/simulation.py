"""The conversations of a simulation (`simulation.json`): turns of a simulated user and the agent, read and written.

As in ArkSim, a turn is a message of the user with the answer that follows it; a message without an answer, or an answer
without a message, is no turn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from a2a_tool_capture.artifact_calls import read_tool_calls
from a2a_tool_capture.models import Finding, ToolCall, ToolCallSource
from a2a_tool_capture.spec import METADATA_KEY

from ...foreign import HeldTurn, unique_ids
from ...grouping import grouped
from ...suite import Case, CaseTurn, Simulation
from ...suite.writing import printable_id
from ...suite.yaml_document import Document, Node, SuiteError, read_bytes
from ...suite_fields import unique_keys

MAX_BYTES = 100_000_000
_SCHEMA_VERSION, _SIMULATOR_VERSION = "v1.1", "v1"
_SOURCES = ("a2a_protocol", "openai_agents", "otel_trace")
"""What ArkSim's reader accepts; it also accepts null."""


@dataclass(frozen=True, slots=True)
class Scenarios:
    """The cases of a scenario file, and its scenarios as they stand in it, by the id of their case."""

    cases: tuple[Case, ...] = ()
    originals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    schema_version: str = "v1"

    def scenario_id(self, case_id: str) -> str:
        """The id that the scenario of a case has in the file; for another case its own."""
        original = self.originals.get(case_id)
        return case_id if original is None else str(original["scenario_id"])

    def by_scenario_id(self, cases: Iterable[Case]) -> dict[str, Case]:
        """`cases` by the ids of their scenarios; of equal ids the first."""
        found: dict[str, Case] = {}
        for case in cases:
            found.setdefault(self.scenario_id(case.id), case)
        return found


@dataclass(frozen=True, slots=True)
class SimulatedConversation:
    """`user` is who was simulated: keys `goal`, `agent_context`, `knowledge`, `user_profile`, as in a scenario."""

    conversation_id: str
    scenario_id: str
    turns: Sequence[HeldTurn]
    user: Mapping[str, Any] = field(default_factory=dict)
    prompt: str = ""
    """The template of the simulated user's prompt."""


@dataclass(frozen=True, slots=True)
class SimulationFile:
    simulation_id: str
    generated_at: str
    conversations: Sequence[SimulatedConversation]
    notes: tuple[str, ...] = ()
    """What is not read, a sentence for each."""


# ── read ────────────────────────────────────────────────────────────────────────────────────────────────────────


def load_simulation(path: Path) -> SimulationFile:
    """The file at `path`. Raises SuiteError."""
    return read_simulation(read_bytes(path, MAX_BYTES, "a simulation"), str(path))


def read_simulation(data: bytes, filename: str = "simulation.json") -> SimulationFile:
    """The conversations in the JSON text `data`. Raises SuiteError."""
    try:
        value = json.loads(data, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise SuiteError(f"is not JSON: {error}", filename) from None
    node = Node(Document(value, filename), value)
    notes: list[str] = []
    conversations = [_conversation(item, notes) for item in node.need("conversations").items()]
    seen = set[str]()
    for index, conversation in enumerate(conversations):
        if conversation.conversation_id in seen:
            node.need("conversations").items()[index].fail(
                f"conversation_id {conversation.conversation_id!r} is that of an earlier conversation"
            )
        seen.add(conversation.conversation_id)
    if not any(conversation.turns for conversation in conversations):
        node.need("conversations").fail("no message of a user has an answer, so there is nothing to score")
    return SimulationFile(
        node.need("simulation_id").text(), node.text_at("generated_at") or "", conversations, tuple(notes)
    )


def _conversation(node: Node, notes: list[str]) -> SimulatedConversation:
    conversation_id = node.need("conversation_id").text()
    turns: list[HeldTurn] = []
    message: str | None = None
    for item in node.need("conversation_history").items():
        role = item.need("role").choice(("simulated_user", "assistant"))
        content = item.object().get("content")
        if not isinstance(content, str):
            content = item.need("content").text()
        if role == "simulated_user":
            if message is not None:
                notes.append(f"conversation {conversation_id}: a message of the user has no answer and is not scored")
            message = content
        elif message is None:
            notes.append(f"conversation {conversation_id}: an answer to no message is not scored")
        else:
            turns.append(HeldTurn(message, content, *_calls(item)))
            message = None
    if message is not None:
        notes.append(f"conversation {conversation_id}: the last message of the user has no answer and is not scored")
    prompt = node.at("simulated_user_prompt")
    variables = prompt.at("variables").object()
    user = {name.removeprefix("scenario."): value for name, value in variables.items()}
    template = prompt.text_at("simulated_user_prompt_template") or ""
    return SimulatedConversation(conversation_id, node.need("scenario_id").text(), turns, user, template)


def _calls(message: Node) -> tuple[tuple[ToolCall, ...], tuple[Finding, ...]]:
    """The calls of an answer, read as those that agents send: with a finding for each repair."""
    calls: list[ToolCall] = []
    findings: list[Finding] = []
    for entry in message.items_at("tool_calls"):
        source = entry.value.get("source") if isinstance(entry.value, dict) else None
        kept = ToolCallSource(source) if source in _SOURCES else ToolCallSource.CLIENT
        reading = read_tool_calls({"metadata": {METADATA_KEY: [entry.value]}}, require_artifact_uri=False)
        calls += (replace(call, source=kept) for call in reading.tool_calls)
        findings += reading.findings
    return tuple(calls), tuple(findings)


def cases_by_scenario(conversations: Sequence[SimulatedConversation], known: Mapping[str, Case]) -> dict[str, Case]:
    """The case of each scenario id in `conversations`, with the number of its conversations.

    One that is not among the `known` is made from the user in its first conversation.
    """
    by_scenario = grouped((conversation.scenario_id, conversation) for conversation in conversations)
    found = ((known.get(scenario_id) or _case(own[0])).held(len(own)) for scenario_id, own in by_scenario.items())
    return dict(zip(by_scenario, unique_ids(found), strict=True))


def _case(conversation: SimulatedConversation) -> Case:
    """The case of a scenario of which only this conversation is known."""
    user, case_id = conversation.user, printable_id(conversation.scenario_id)
    if not isinstance(goal := user.get("goal"), str) or not goal.strip():
        message = conversation.turns[0].user if conversation.turns else "?"
        return Case(id=case_id, turns=(CaseTurn(message),))
    knowledge = user.get("knowledge")
    items = [knowledge] if isinstance(knowledge, str) else knowledge if isinstance(knowledge, list) else []
    simulate = Simulation(
        goal=goal,
        profile=_text(user.get("user_profile")),
        context=_text(user.get("agent_context")),
        knowledge=tuple(text for item in items if (text := _text(item))),
    )
    return Case(id=case_id, simulate=simulate)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


# ── write ───────────────────────────────────────────────────────────────────────────────────────────────────────


def simulation_text(simulation_id: str, generated_at: str, conversations: Iterable[SimulatedConversation]) -> str:
    """The inverse of `read_simulation`. `generated_at` is an RFC 3339 time."""
    head = {
        "schema_version": _SCHEMA_VERSION,
        "simulator_version": _SIMULATOR_VERSION,
        "simulation_id": simulation_id,
        "generated_at": generated_at,
    }
    written = [
        {
            "conversation_id": conversation.conversation_id,
            "scenario_id": conversation.scenario_id,
            "conversation_history": list(_messages(conversation)),
            "simulated_user_prompt": {
                "simulated_user_prompt_template": conversation.prompt,
                "variables": {f"scenario.{name}": value for name, value in conversation.user.items()},
            },
        }
        for conversation in conversations
    ]
    return json.dumps({**head, "conversations": written}, indent=4) + "\n"


def _messages(conversation: SimulatedConversation) -> Iterator[dict[str, Any]]:
    for index, turn in enumerate(conversation.turns):
        message_id = f"{conversation.conversation_id}/{index}"
        said = {"turn_id": index, "message_id": f"{message_id}/user", "role": "simulated_user", "content": turn.user}
        yield {**said, "tool_calls": None}
        yield {
            "turn_id": index,
            "message_id": f"{message_id}/assistant",
            "role": "assistant",
            "content": turn.response,
            "tool_calls": [*map(_written_call, turn.tool_calls)] or None,
        }


def _written_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "name": call.name,
        "arguments": dict(call.arguments or {}),
        "result": call.result,
        "error": call.error,
        "source": str(call.source) if call.source in _SOURCES else None,
    }
