"""The files of a run in ArkSim's format."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from a2a_tool_capture.models import ToolCall, rfc3339

from ...foreign import HeldConversations, HeldTurn
from ...outcomes.conversations import RunConversation, TurnJson
from ...report.model import Report
from ...simulation.user import user_prompt
from ...suite import Suite
from .results import ArksimResults, conversation_id
from .simulation import Scenarios, SimulatedConversation, cases_by_scenario, load_simulation, simulation_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ArksimFiles:
    """The files that a configuration names, as `foreign.RunFiles`; `simulation` is where `run` writes conversations.

    Without values: those of a suite that is of no configuration. A place that is None is not given."""

    scenarios: Scenarios = field(default_factory=Scenarios)
    conversations: Path | None = None
    simulation: Path | None = None
    folder: Path | None = None
    page: str | None = None

    def output(self, report: Path | None) -> Path | None:
        return self.simulation or (report and report / "simulation.json")

    def read(self, path: Path, suite: Suite) -> HeldConversations:
        file = load_simulation(path)
        cases = cases_by_scenario(file.conversations, self.scenarios.by_scenario_id(suite.cases))
        cases = {scenario_id: case.completed(suite) for scenario_id, case in cases.items()}
        return HeldConversations(
            file.simulation_id,
            file.generated_at,
            replace(suite, cases=tuple(cases.values())),
            [
                (one.conversation_id, cases[one.scenario_id].id, turn)
                for one in file.conversations
                for turn in one.turns
            ],
            file.notes,
        )

    def written(self, report: Report, turns: Mapping[str, Sequence[TurnJson]]) -> str:
        prompt = user_prompt(report.suite.simulated_user.prompt if report.suite else None).text
        conversations = [
            self._conversation(one, turns[one.label], prompt) for one in report.conversations if one.executed
        ]
        return simulation_text(simulation_id(report.run), rfc3339(datetime.now(UTC)), conversations)

    def _conversation(self, held: RunConversation, turns: Sequence[TurnJson], prompt: str) -> SimulatedConversation:
        user = held.case.simulate if held.case else None
        variables = user and {
            "agent_context": user.context or "",
            "goal": user.goal,
            "knowledge": list(user.knowledge),
            "user_profile": user.profile or "",
        }
        said = [
            HeldTurn(turn["user_text"], turn["response_text"], tuple(map(ToolCall.from_dict, turn["tool_calls"])))
            for turn in turns
        ]
        scenario_id = self.scenarios.scenario_id(held.case_id or "")
        return SimulatedConversation(conversation_id(held), scenario_id, said, variables or {}, prompt)

    def results(self, report: Report, held: HeldConversations | None) -> dict[str, str]:
        of_simulation = held.id if held else simulation_id(report.run)
        now = rfc3339(datetime.now(UTC))
        found = ArksimResults(report, self.scenarios, of_simulation, str(uuid.uuid4()), now)
        focus = {f"focus/{name}": text for name, text in found.focus().items()}
        return {"evaluation.json": found.evaluation(), **focus}


def simulation_id(run: str) -> str:
    """The id of the simulation that a run is: a UUID that depends on its name alone."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, run))
