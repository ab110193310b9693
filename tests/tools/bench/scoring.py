"""Evaluators: turns scored per second, next to the evaluators of other packages that go by the same rule."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.provision import UnavailableError, python_with

from .part import BehaviourError, Measured, Metric, Setting
from .procfs import pin_to

Turn = dict[str, Any]
"""`calls` and `expected`: lists of `{name, arguments, result}`; and what other rules expect."""

HERE = Path(__file__).parent
SIZES = (5, 200)
TOOLS = 10
OURS = "ours"
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_UPDATE_WARNING_OPT_IN": "0",
    "OPENAI_API_KEY": "none",  # deepeval wants one even where it asks no model
    "UIPATH_TELEMETRY_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}
"""Keeps the peers off the network."""

RULES = {
    "equal": "the expected calls, in order (all or nothing)",
    "contained": "the expected calls among others, in any order (all or nothing)",
    "arguments": "expected calls made with their arguments (graded)",
    "names": "longest common subsequence of the names (graded)",
    "counts": "calls per tool (graded)",
    "outputs": "outputs per tool (graded)",
    "catalogue": "20 evaluators together",
}
GRADED_OTHERWISE = {("deepeval", "arguments")}
"""Where a peer means the same by a rule, but gives a call with some right arguments a part of the point."""


@dataclass(frozen=True)
class Scorer:
    """A script of scorers/, and what its environment holds (None: this one)."""

    name: str
    script: str
    requirements: Path | None = None


SCORERS = (
    Scorer(OURS, "score_ours.py"),
    Scorer("uipath", "score_uipath.py", HERE / "environments/uipath.txt"),
    Scorer("deepeval", "score_deepeval.py", HERE / "environments/deepeval.txt"),
    Scorer("google-adk", "score_adk.py", HERE / "environments/google-adk.txt"),
)


def varied_turns(size: int) -> list[Turn]:
    """Turns of `size` expected calls: all made; one with another argument; one missing; two swapped; one too many."""
    expected = [_call(number) for number in range(size)]
    middle = size // 2
    actual = [
        expected,
        [*expected[:middle], _call(middle, town="Elsewhere"), *expected[middle + 1 :]],
        [*expected[:middle], *expected[middle + 1 :]],
        [*expected[: middle - 1], expected[middle], expected[middle - 1], *expected[middle + 1 :]],
        [*expected[:middle], _call(middle, town="Elsewhere"), *expected[middle:]],
    ]
    counts = {_name(number): [">=", 1] for number in range(min(TOOLS, size))}
    common = {"expected": expected, "counts": counts, "response": "Booked for Saturday."}
    return [{"calls": calls, **common} for calls in actual]


def _call(number: int, town: str | None = None) -> dict[str, Any]:
    arguments = {
        "city": town or f"City {number}",
        "nights": float(number % 7),
        "room": {"floor": number, "wishes": ["quiet", "view"]},
    }
    return {"name": _name(number), "arguments": arguments, "result": f"booked {number}"}


def _name(number: int) -> str:
    return f"tool_{number % TOOLS}"


METRICS = tuple(
    Metric(f"scoring_{size}_{rule}", f"Turns of {size} calls, turns/s", title)
    for size in SIZES
    for rule, title in RULES.items()
)


def scoring(setting: Setting) -> Measured:
    measured = Measured(METRICS, [], OURS, ("uipath", "deepeval", "google-adk"))
    pythons: dict[Scorer, Path] = {}
    for scorer in SCORERS:
        setting.progress(f"looking for an environment for {scorer.name}")
        try:
            pythons[scorer] = python_with(scorer.requirements) if scorer.requirements else Path(sys.executable)
        except UnavailableError as error:
            measured.warnings.append(f"{scorer.name} is left out: {error}")
    measured.targets = [scorer.name for scorer in pythons]
    for number in range(1, setting.plan.rounds + 1):
        values = measured.next_round()
        for size in SIZES:
            setting.progress(f"round {number} of {setting.plan.rounds}: turns of {size} calls")
            turns = varied_turns(size)
            found = {
                scorer.name: score(scorer, python, turns, setting.plan.scoring_s, setting.subject_cpus)
                for scorer, python in pythons.items()
            }
            check_scores(found)
            for name, rules in found.items():
                values[name] |= {f"scoring_{size}_{rule}": result["turns_per_s"] for rule, result in rules.items()}
    return measured


def score(
    scorer: Scorer, python: Path, turns: Sequence[Turn], seconds: float, cpus: set[int]
) -> dict[str, dict[str, Any]]:
    """What the scorer says of the turns, in its own environment: for each rule it has `turns_per_s` and `scores`.

    Raises BehaviourError with what it printed where it fails.
    """
    environment = os.environ | QUIET
    if scorer.requirements is not None:
        environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [str(python), str(HERE / "scorers" / scorer.script)],
        input=json.dumps({"turns": turns, "seconds": seconds}),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        preexec_fn=pin_to(cpus),
        timeout=600,
    )
    if done.returncode:
        raise BehaviourError(f"{scorer.name} does not score: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def check_scores(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """What is compared must be the same: raises BehaviourError where a peer's scores differ from ours."""
    for name, rules in found.items():
        for rule, result in rules.items():
            pairs = zip(found[OURS][rule]["scores"], result["scores"], strict=True)
            same = all(math.isclose(ours, theirs, abs_tol=1e-9) for ours, theirs in pairs)
            if not same and (name, rule) not in GRADED_OTHERWISE:
                raise BehaviourError(f"{rule}: we score {found[OURS][rule]['scores']}, {name} {result['scores']}")
