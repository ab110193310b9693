"""Writes tests/evaluators/fixtures/inspect_ai.json: what the reducers and the clustered error of inspect_ai return.

inspect_ai is too large for the environment of the tests. In one of its own:
`pip install inspect_ai==0.3.285 && python tests/support/record_inspect_ai.py`
"""

from __future__ import annotations

import json
import math
from importlib.metadata import version
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import inspect_ai.scorer as inspect

FILE = Path(__file__).parents[1] / "evaluators" / "fixtures" / "inspect_ai.json"
SCORES = (
    [1.0, 1.0, 0.0],
    [0.0, 0.0, 0.0, 0.0],
    [1.0] * 5,
    [1.0, 0.0, None, 1.0],
    [None, None],
    [1.0],
    [1.0] * 7 + [0.0] * 13,
)


def reduced(name: str, scores: list[float | None], k: int) -> float | None:
    given = [inspect.Score(value=math.nan if score is None else score) for score in scores]
    value = float(getattr(inspect, name)(k)(given).value)
    return None if math.isnan(value) else value


def clustered(cases: list[list[float]]) -> float:
    scores = [
        inspect.SampleScore(score=inspect.Score(value=score), sample_metadata={"case": str(number)})
        for number, case in enumerate(cases)
        for score in case
    ]
    return float(inspect.stderr(cluster="case")(scores))


def recorded() -> dict[str, Any]:
    chance = Random(1)
    runs = [[[float(chance.random() < 0.7) for _ in range(k)] for _ in range(cases)] for cases, k in ((5, 3), (20, 4))]
    names = {"pass_at": "pass_at", "pass_k": "pass_k"}
    return {
        "origin": f"inspect_ai {version('inspect_ai')}, tests/support/record_inspect_ai.py",
        "reducers": [
            {"scores": scores, "k": k, **{ours: reduced(theirs, scores, k) for ours, theirs in names.items()}}
            for scores, k in product(SCORES, (1, 2, 3, 5))
        ],
        "clustered": [{"cases": cases, "stderr": clustered(cases)} for cases in runs],
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(recorded(), indent=1) + "\n", "utf-8")
