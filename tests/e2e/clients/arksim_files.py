"""Reads the files of a run with ArkSim's own package, and prints what it finds. Runs in ArkSim's environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from arksim.evaluator import Evaluation, check_numeric_thresholds, check_qualitative_failure_labels
from arksim.scenario import Scenarios
from arksim.simulation_engine import Simulation

simulation_path, results = Path(sys.argv[1]), Path(sys.argv[2])
simulation = Simulation.model_validate_json(simulation_path.read_text())
evaluation = Evaluation.model_validate_json((results / "evaluation.json").read_text())
found = {
    "simulation_id": simulation.simulation_id,
    "simulation": [
        [conversation.scenario_id, [message.content for message in conversation.conversation_history]]
        for conversation in simulation.conversations
    ],
    "calls": [
        call.name
        for conversation in simulation.conversations
        for message in conversation.conversation_history
        for call in message.tool_calls or ()
    ],
    "evaluation": evaluation.model_dump(),
    "above": check_numeric_thresholds(evaluation, {"overall_score": 0.0, "helpfulness": 1.0}),
    "below": check_numeric_thresholds(evaluation, {"overall_score": 0.9}),
    "labels": check_qualitative_failure_labels(evaluation, {"agent_behavior_failure": ["false information"]}),
    "focus": {
        path.name: [scenario.scenario_id for scenario in Scenarios.load(str(path)).scenarios]
        for path in sorted(results.glob("focus/*.json"))
    },
}
print(json.dumps(found))
