"""ArkSim's `simulation.json`: its conversations stored as turns of a run, and those of a run written to it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from a2a_tool_capture.models import ToolCall, rfc3339
from tool_call_evaluators.arksim.files.config import Scenarios
from tool_call_evaluators.arksim.files.results import conversation_id
from tool_call_evaluators.arksim.files.simulation import (
    SimulatedConversation,
    SimulatedTurn,
    SimulationFile,
    cases_by_scenario,
    simulation_text,
)
from tool_call_evaluators.report import Report
from tool_call_evaluators.runs.outcomes import RunConversation
from tool_call_evaluators.simulation.user import user_prompt
from tool_call_evaluators.suite import Case, Suite

from .. import audit
from ..errors import ConfigError
from ..files import write_file
from ..ids import new_turn_id
from ..privacy.policy import Privacy
from ..settings.store_url import masked_url
from ..store import Store, StoreError, TurnQuery, every_turn, open_store
from ..turn import Turn
from .stored_turns import open_existing_store

_BATCH = 50  # turns that wait for the store together


def simulation_id(run: str) -> str:
    """The id of the simulation that a run is: a UUID that depends on its name alone."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, run))


def scored_by(simulation: SimulationFile, suite: Suite, scenarios: Scenarios) -> tuple[Suite, dict[str, Case]]:
    """The suite with the cases that the conversations are of, and these by the ids of their scenarios."""
    cases = cases_by_scenario(simulation.conversations, scenarios.by_scenario_id(suite.cases))
    cases = {scenario_id: case.completed(suite) for scenario_id, case in cases.items()}
    return replace(suite, cases=tuple(cases.values())), cases


async def store_simulation(
    simulation: SimulationFile, cases: Mapping[str, Case], location: str, run: str, privacy: Privacy
) -> None:
    """Store the conversations as turns of `run` that wait to be scored, redacted by `privacy`.

    Raises ConfigError for a run that exists, StoreError for the store.
    """
    store = open_store(location)
    try:
        if await store.runs(run):
            raise ConfigError(
                f"run {run!r} already exists in {masked_url(location)}; the conversations of a simulation are a new "
                "run: give another --run name"
            )
        audit.changed(run=run, store=masked_url(location))
        batch: list[Turn] = []
        for turn in _turns(simulation, cases, run):
            batch.append(privacy.stored(privacy.redacted(turn)))
            if len(batch) == _BATCH:
                await _add(store, batch)
                batch = []
        await _add(store, batch)
    finally:
        await asyncio.to_thread(store.close)


async def _add(store: Store, turns: list[Turn]) -> None:
    if not store.add(turns, lambda: None):
        raise StoreError("the turns of the simulation are too large for the store")
    await store.drained()


def _turns(simulation: SimulationFile, cases: Mapping[str, Case], run: str) -> list[Turn]:
    """The turns, a millisecond apart: the file has no times of theirs."""
    started = _time(simulation.generated_at)
    found: list[Turn] = []
    for conversation in simulation.conversations:
        for said in conversation.turns:
            moment = started + len(found) / 1000
            found.append(
                Turn(
                    turn_id=new_turn_id(),
                    run=run,
                    agent=f"simulation {simulation.simulation_id}",
                    binding="",
                    protocol_version="",
                    started_at=moment,
                    ended_at=moment,
                    case_id=cases[conversation.scenario_id].id,
                    conversation_id=conversation.conversation_id,
                    status="pending",
                    user_text=said.user,
                    response_text=said.response,
                    tool_calls=list(said.tool_calls),
                    findings=list(said.findings),
                    shown_by="outputs",
                )
            )
    return found


def _time(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.now(UTC)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


async def write_simulation(path: Path, report: Report, scenarios: Scenarios, location: str) -> None:
    """Write the conversations of a run in the store at `location`, whose report is `report`. Raises OSError."""
    prompt = user_prompt(report.suite.simulated_user.prompt if report.suite else None).text
    async with open_existing_store(location) as store:
        conversations = [
            replace(await _conversation(item, scenarios, store, report.run), prompt=prompt)
            for item in report.conversations
            if item.executed
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, simulation_text(simulation_id(report.run), rfc3339(datetime.now(UTC)), conversations))


async def _conversation(
    conversation: RunConversation, scenarios: Scenarios, store: Store, run: str
) -> SimulatedConversation:
    query = TurnQuery(run=run, conversation=conversation.conversation_id, case=conversation.case_id)
    turns = [
        SimulatedTurn(turn["user_text"], turn["response_text"], tuple(map(ToolCall.from_dict, turn["tool_calls"])))
        async for turn in every_turn(store, query)
    ]
    user = conversation.case.simulate if conversation.case else None
    variables = user and {
        "agent_context": user.context or "",
        "goal": user.goal,
        "knowledge": list(user.knowledge),
        "user_profile": user.profile or "",
    }
    scenario_id = scenarios.scenario_id(conversation.case_id or "")
    return SimulatedConversation(conversation_id(conversation), scenario_id, turns, variables or {})
