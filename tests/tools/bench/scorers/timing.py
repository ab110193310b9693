"""What every scorer has in common: reads turns on stdin, scores them by each of its rules, prints speed and scores.

Runs in the environment of what it measures, so it needs the standard library alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Turn = dict[str, Any]
"""`calls` and `expected`: lists of `{name, arguments, result}`; made by cases.py."""

Rules = Mapping[str, tuple[Callable[[Turn], Any], Callable[[Any], float]]]
"""By name: what makes a turn the scorer's own input (not timed), and what scores that input (timed)."""


def run(rules: Rules) -> None:
    """Read `{"turns": [...], "seconds": s}`; print `{rule: {"turns_per_s": n, "scores": [...]}}`.

    Speed is per second of CPU time, so that a busy machine costs accuracy only.
    """
    task = json.load(sys.stdin)
    print(json.dumps({name: _measured(*rule, task["turns"], task["seconds"]) for name, rule in rules.items()}))


def _measured(
    prepare: Callable[[Turn], Any], score: Callable[[Any], float], turns: Sequence[Turn], seconds: float
) -> dict[str, Any]:
    prepared = [prepare(turn) for turn in turns]
    scores = [score(item) for item in prepared]
    done, begun = 0, time.process_time()
    while not done or time.process_time() - begun < seconds:
        for item in prepared:
            score(item)
        done += len(prepared)
    spent = time.process_time() - begun
    return {"turns_per_s": done / spent, "scores": scores}
