"""What exchanges show of a task, as values that outlive the process: a task is folded from them.

An observation is a JSON object with `kind`, `exchange` (its id, which begins with that of its proxy), `at` (seconds),
`size` (bytes of memory that it takes at most; none for 0), and what the kind needs:

- `sent`: `turn`, `returns_at_once`, `if_generation`: a message was sent;
- `event`: `event` (v1.0), `live`, `notified`;
- `alive`: nothing; the exchange showed a sign of life;
- `ended`: `problem`, `final`, `findings`;
- `finding`: `finding`, of the task.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
from a2a_tool_capture import Finding, Severity

from ..protocol.operations import decode_json
from ..turn import Turn, TurnLinks
from .failures import CAPTURE_FAILED, log_failure
from .task_fold import FoldRules, TaskFold

Observation = dict[str, Any]

UNREAD = Finding(
    "capture_error",
    "what a proxy observed of this task cannot be read: calls may be in no turn",
    Severity.ERROR,
    "capture",
)


class FoldedTask(NamedTuple):
    """A task as its observations show it."""

    fold: TaskFold
    due_at: float | None
    """When it is to be folded again although nothing more was observed; None: nothing is open."""


def fold_task(
    observations: Iterable[Observation],
    history: Sequence[Turn] | None,
    rules: FoldRules,
    now: float,
    *,
    awaited: bool = False,
    gone: Mapping[str, float] = MappingProxyType({}),
) -> FoldedTask:
    """Fold the observations of a task, in the order of their times. Never raises: for one that cannot be taken there is
    a finding.

    `awaited`: notifications of the task may come. `gone`: the proxies that were killed, and when they were there last.
    """
    fold, problems = TaskFold(rules, history, tuple(gone.values())), []
    for one in _with_cuts(observations, gone):
        try:
            fold_one(fold, one)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            log_failure(error)
            problems.append(CAPTURE_FAILED)
    for finding in problems[:1]:
        fold.found(finding)
    return FoldedTask(fold, fold.expire(now, awaited=awaited))


def _with_cuts(observations: Iterable[Observation], gone: Mapping[str, float]) -> list[Observation]:
    """The observations, and a `cut` for each exchange whose proxy was killed before it ended."""
    found = list(observations)
    if not gone:
        return found
    ended = {one["exchange"] for one in found if one["kind"] == "ended"}
    last = {one["exchange"]: one["at"] for one in found if one["kind"] == "sent" or one.get("live")}
    for exchange, at in last.items():
        killed_at = gone.get(exchange.partition(" ")[0])
        if killed_at is not None and exchange not in ended:
            found.append({"kind": "cut", "exchange": exchange, "at": max(at, killed_at)})
    return sorted(found, key=lambda one: one["at"])


def fold_one(fold: TaskFold, one: Observation) -> None:
    """Fold one more observation. Raises KeyError or ValueError for what is none."""
    exchange, at = one["exchange"], one["at"]
    match one["kind"]:
        case "sent":
            turn = turn_from_json(one["turn"])
            more = {"returns_at_once": one["returns_at_once"], "if_generation": one["if_generation"]}
            fold.sent(exchange, turn, at, **more)
        case "event":
            fold.event(exchange, one["event"], at, live=one["live"], notified=one["notified"])
        case "alive":
            fold.alive(exchange, at)
        case "cut":
            fold.cut(exchange, at)
        case "ended":
            problem = None if one["problem"] is None else Finding.from_dict(one["problem"])
            findings = map(Finding.from_dict, one["findings"])
            fold.ended(exchange, at, problem=problem, final=one["final"], findings=findings)
        case "finding":
            fold.found(Finding.from_dict(one["finding"]))
        case other:
            raise ValueError(f"no kind of observation: {other!r}")


def turn_to_json(turn: Turn) -> dict[str, Any]:
    """A turn as it began, with what other JSON leaves out."""
    links = None if turn.links is None else turn.links.to_dict()
    return {**turn.to_dict(), "parent_span_id": turn.parent_span_id, "links": links}


def turn_from_json(data: dict[str, Any]) -> Turn:
    turn = Turn.from_dict(data)
    turn.parent_span_id = data["parent_span_id"]
    turn.links = None if data["links"] is None else TurnLinks.from_dict(data["links"])
    return turn


def encoded(observation: Observation) -> str:
    """An observation as JSON, see `decoded`; `unread` in its place if its event is nested too deeply for that."""
    try:
        return orjson.dumps(observation).decode()
    except TypeError:  # lone surrogates, integers beyond 64 bits
        try:
            return json.dumps(observation)
        except RecursionError:
            return json.dumps(unread(observation["at"]))


def decoded(content: str) -> list[Observation]:
    """The observations in a stored JSON list; `unread` in the place of what is none."""
    try:
        found = decode_json(content.encode())
    except ValueError:
        found = None
    if not isinstance(found, list):
        return [unread(0.0)]
    return [one if isinstance(one, dict) and {"kind", "exchange", "at"} <= one.keys() else unread(0.0) for one in found]


def unread(at: float) -> Observation:
    """What stands in the place of an observation that cannot be read."""
    return {"kind": "finding", "exchange": "", "at": at, "finding": UNREAD.to_dict()}
