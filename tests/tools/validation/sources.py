"""Public trajectories as cases for evaluators, each with the verdict of its source."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tool_call_evaluators import EvalCase

DATA = Path(__file__).parent / "data"

TAU_CLASSES = {"reads": ("get_*", "search_*", "list_*", "calculate", "think", "transfer_*"), "writes": ()}
"""The tools of tau-bench that do not change its database, of all domains."""


@dataclass(frozen=True)
class Judged:
    """A trajectory: its category, whether its source says that it is right, and why not."""

    name: str
    category: str
    case: EvalCase
    right: bool
    problem: str = ""
    model: str = ""


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a compressed file of JSON lines."""
    yield from map(json.loads, gzip.decompress(path.read_bytes()).splitlines())


# ── Berkeley Function Calling Leaderboard ───────────────────────────────────────────────────────────────────────


def bfcl() -> Iterator[Judged]:
    """Trajectories of the leaderboard. Its lists of accepted values become placeholders."""
    for row in rows(DATA / "bfcl.jsonl.gz"):
        expected = [{"name": call["name"], "arguments": _arguments(call["arguments"])} for call in row["expected"]]
        case = EvalCase(tool_calls=row["calls"], expected_tool_calls=expected)
        name = f"{row['case']} {row['model']}"
        yield Judged(name, row["category"], case, row["valid"], row["error_type"] or "", row["model"])


def _arguments(gold: Any) -> dict[str, Any]:
    # in one case of the leaderboard, a parameter stands in the place of a call: no call meets that
    return {name: accepted(values) for name, values in gold.items()} if isinstance(gold, Mapping) else {}


def accepted(values: Sequence[Any]) -> Any:
    """The expectation of one of `values`; an empty string among them means that the argument may be missing, too."""
    given = [_inner(value) for value in values]
    expected = given[0] if len(given) == 1 else {"$one_of": given}
    return {"$optional": expected} if "" in values else expected


def _inner(value: Any) -> Any:
    """Objects in an accepted value have lists of accepted values, too."""
    if isinstance(value, Mapping):
        return {key: accepted(values) for key, values in value.items()}
    return [_inner(item) for item in value] if isinstance(value, list) else value


# ── tau-bench ───────────────────────────────────────────────────────────────────────────────────────────────────


def tau() -> Iterator[Judged]:
    """Trials of tau-bench."""
    for row in rows(DATA / "tau-airline.jsonl.gz"):
        calls = [call if "error" in call else {**call, "result": call.get("result") or "done"} for call in row["calls"]]
        case = EvalCase(tool_calls=calls, expected_tool_calls=row["expected"], tool_classes=TAU_CLASSES)
        yield Judged(str(row["task"]), "airline", case, row["reward"] == 1)
