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


@dataclass(frozen=True)
class Judged:
    """A trajectory: its category, whether its source says that it is right, and why not."""

    name: str
    category: str
    case: EvalCase
    right: bool
    problem: str = ""


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines, or of one JSON list; compressed or not."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    yield from json.loads(text) if path.suffix == ".json" else map(json.loads, text.splitlines())


def bfcl(path: Path = DATA / "bfcl.jsonl.gz") -> Iterator[Judged]:
    """Rows of the Berkeley Function Calling Leaderboard. Its lists of accepted values become placeholders."""
    for row in rows(path):
        expected = [{"name": call["name"], "arguments": _arguments(call["arguments"])} for call in row["expected"]]
        case = EvalCase(tool_calls=row["calls"], expected_tool_calls=expected)
        yield Judged(f"{row['case']} {row['model']}", row["category"], case, row["valid"], row["error_type"] or "")


def _arguments(gold: Any) -> dict[str, Any]:
    # in one case of the leaderboard, a parameter stands in the place of a call: no call meets that
    return {name: accepted(values) for name, values in gold.items()} if isinstance(gold, Mapping) else {}


def accepted(values: Sequence[Any]) -> Any:
    """The expectation of one of `values`; an empty string among them means that the argument may be missing."""
    given = [_inner(value) for value in values if value != ""]
    if not given:
        return {"$optional": ""}
    expected = given[0] if len(given) == 1 else {"$one_of": given}
    return {"$optional": expected} if "" in values else expected


def _inner(value: Any) -> Any:
    """Objects in an accepted value have lists of accepted values, too."""
    if isinstance(value, Mapping):
        return {key: accepted(values) for key, values in value.items()}
    return [_inner(item) for item in value] if isinstance(value, list) else value


def tau(path: Path = DATA / "tau-airline.jsonl.gz") -> Iterator[Judged]:
    """Trials of tau-bench, as rows of this repository or as its own files of trajectories."""
    for row in rows(path):
        own = _of_trajectory(row) if "traj" in row else row
        calls = [call if "error" in call else {**call, "result": call.get("result") or "done"} for call in own["calls"]]
        case = EvalCase(tool_calls=calls, expected_tool_calls=own["expected"])
        yield Judged(str(own["task"]), "airline", case, own["reward"] == 1)


def _of_trajectory(row: Mapping[str, Any]) -> dict[str, Any]:
    """A trial as tau-bench writes it: OpenAI's messages, and the actions of the task."""
    actions = row["info"]["task"]["actions"]
    calls, by_id = [], {}
    for message in row["traj"]:
        for made in message.get("tool_calls") or ():
            function = made["function"]
            call = {"id": made["id"], "name": function["name"], "arguments": json.loads(function["arguments"])}
            calls.append(call)
            by_id[made["id"]] = call
        if message["role"] == "tool" and (answered := by_id.get(message.get("tool_call_id"))) is not None:
            content = message.get("content") or ""
            answered["error" if content.startswith("Error") else "result"] = content
    expected = [{"name": action["name"], "arguments": action["kwargs"]} for action in actions]
    return {"task": row["task_id"], "reward": row["reward"], "expected": expected, "calls": calls}
