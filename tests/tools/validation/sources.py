"""Public trajectories as cases for evaluators, each with the verdict of its source."""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tool_call_evaluators import EvalCase

DATA = Path(__file__).parent / "data"

TAU_CLASSES = {"reads": ("get_*", "search_*", "list_*", "calculate", "think", "transfer_*"), "writes": ()}
"""The tools of tau-bench that do not change its database, of all domains."""

_CATEGORIES = {
    "simple": "simple",
    "multiple_function": "multiple",
    "parallel_function": "parallel",
    "parallel_multiple_function": "parallel_multiple",
}
"""The leaderboard's categories that its AST checker judges, as its files name them, and as the rows do."""


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
    """The rows of a file of JSON lines, or of one JSON list; compressed or not."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    if text.lstrip()[:1] == b"[":
        yield from json.loads(text)
    else:
        yield from map(json.loads, text.splitlines())


# ── Berkeley Function Calling Leaderboard ───────────────────────────────────────────────────────────────────────


def bfcl(path: Path = DATA / "bfcl.jsonl.gz", gold: Path | None = None) -> Iterator[Judged]:
    """Trajectories of the leaderboard. Its lists of accepted values become placeholders.

    `path` is a file of rows of this repository, or a directory of BFCL-Result, as 2024-08-11, with `result` and
    `score`; then `gold` is the leaderboard's `data`, whose questions name the functions.
    """
    found = rows(path) if path.is_file() else _results(path, gold)
    for row in found:
        expected = [{"name": call["name"], "arguments": _arguments(call["arguments"])} for call in row["expected"]]
        case = EvalCase(tool_calls=row["calls"], expected_tool_calls=expected)
        name = f"{row['case']} {row['model']}"
        yield Judged(name, row["category"], case, row["valid"], row["error_type"] or "", row["model"])


def _results(folder: Path, gold: Path | None) -> Iterator[dict[str, Any]]:
    """Rows from the leaderboard's own files, without the answers that it, or we, cannot read as a list of calls."""
    if gold is None or not (folder / "result").is_dir() or not (folder / "score").is_dir():
        raise ValueError(f"{folder}: expected result and score in it, and the leaderboard's data as --bfcl-gold")
    for own, category in _CATEGORIES.items():
        expected = dict(_expected(gold, own))
        for file in sorted(folder.glob(f"result/*/*_test_{own}_result.json")):
            model = file.parent.name
            score = folder / "score" / model / f"{own}_score.json"
            if not score.is_file():
                continue
            wrong = {_case_of(row): row for row in rows(score) if "accuracy" not in row}
            for row in rows(file):
                refused = wrong.get(row["id"])
                if refused and refused["error_type"].startswith("ast_decoder"):
                    continue
                calls = _calls((refused or {}).get("model_result_decoded", row["result"]))
                if calls is None or row["id"] not in expected:
                    continue
                yield {
                    "case": row["id"],
                    "category": category,
                    "model": model,
                    "expected": expected[row["id"]],
                    "calls": calls,
                    "valid": refused is None,
                    "error_type": refused and refused["error_type"],
                }


def _case_of(refused: Mapping[str, Any]) -> str:
    """The id of the question; that of the row counts from 1."""
    return str(refused["prompt"]["id"])


def _expected(gold: Path, category: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The calls of each question, by its id. The gold numbers those of one function: `play_1`, `play 2`."""
    name = f"gorilla_openfunctions_v1_test_{category}.json"
    functions = {row["id"]: _functions(row["function"]) for row in rows(gold / name)}
    for row in rows(gold / "possible_answer" / name):
        known = functions[row["id"]]
        calls = []
        for numbered, arguments in row["ground_truth"].items():
            bare = re.sub(r"[_ ]\d+$", "", numbered)
            function = next((name for name in (numbered, bare) if name in known), min(known))
            calls.append({"name": _name(function), "arguments": arguments})
        yield row["id"], calls


def _functions(described: Any) -> set[str]:
    return {function["name"] for function in (described if isinstance(described, list) else [described])}


def _name(function: str) -> str:
    """APIs of models accept no dots in names."""
    return function.replace(".", "_")


def _calls(answer: Any) -> list[dict[str, Any]] | None:
    """The calls of an answer: objects by the names of functions, or Python source; None for anything else."""
    if isinstance(answer, str):
        return _calls_in_source(answer)
    if not isinstance(answer, list) or not answer:
        return None
    calls = []
    for entry in answer:
        if not isinstance(entry, Mapping) or len(entry) != 1:
            return None
        ((function, arguments),) = entry.items()
        try:
            given = json.loads(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            return None
        if not function or not isinstance(given, Mapping):
            return None
        calls.append({"name": _name(function), "arguments": given})
    return calls


def _calls_in_source(source: str) -> list[dict[str, Any]] | None:
    text = source.strip()
    text = text if text.startswith("[") else f"[{text}]"
    try:
        tree = ast.parse(text, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List) else []
        calls = [
            {
                "name": _name(ast.unparse(node.func)),
                "arguments": {str(given.arg): ast.literal_eval(given.value) for given in node.keywords},
            }
            for node in nodes
            if isinstance(node, ast.Call) and not node.args
        ]
        json.dumps(calls)  # sets, bytes and complex numbers are Python's alone
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None
    return calls if calls and len(calls) == len(nodes) else None


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


def tau(path: Path = DATA / "tau-airline.jsonl.gz") -> Iterator[Judged]:
    """Trials of tau-bench, as rows of this repository or as its own files of trajectories."""
    for row in rows(path):
        own = _of_trajectory(row) if "traj" in row else row
        calls = [call if "error" in call else {**call, "result": call.get("result") or "done"} for call in own["calls"]]
        case = EvalCase(tool_calls=calls, expected_tool_calls=own["expected"], tool_classes=TAU_CLASSES)
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
