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
    """Read `{"turns": [...], "rules": [...], "seconds": s}`; print `{rule: {"turns_per_s": n, "scores": [...]}}`.

    Rules asked for that the scorer does not have are left out. Speed is per second of CPU time, so that a busy
    machine costs accuracy only.
    """
    task = json.load(sys.stdin)
    known = [name for name in task["rules"] if name in rules]
    print(json.dumps({name: _measured(*rules[name], task["turns"], task["seconds"]) for name in known}))


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
