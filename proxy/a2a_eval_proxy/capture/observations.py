"""What exchanges show of a task, as values that outlive the process: a task is folded from them.

An observation is a JSON object with `kind`, `exchange` (its id), `at` (seconds), and what the kind needs:

- `sent`: `turn`, `returns_at_once`, `if_generation`: a message was sent;
- `event`: `event` (v1.0), `live`, `notified` (the proxy that received a notification, or "");
- `alive`: `touched_at`, `notified`: its proxy goes on, and the exchange showed a sign of life then;
- `left`: `notified`: that proxy receives no further notifications of this webhook;
- `ended`: `problem`, `final`, `findings`;
- `finding`: `finding`, of the task;
- `restarted`: the only proxy has ended before, and with it all exchanges.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson
from a2a_tool_capture import Finding, Severity

from ..protocol.operations import decode_json
from ..turn import Turn, TurnLinks
from .failures import CAPTURE_FAILED, log_failure
from .task_fold import FoldRules, TaskFold, TaskHistory

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
    history: TaskHistory | None,
    rules: FoldRules,
    now: float,
    *,
    awaited: bool = False,
    here: str = "",
    silent_s: float | None = None,
) -> FoldedTask:
    """Fold the observations of a task, in the order of their times. Never raises: for one that cannot be taken there is
    a finding.

    `awaited`: notifications of the task may come. An exchange that is silent for `silent_s` (None: never) is cut off,
    unless its proxy is `here`.
    """
    fold, problems = TaskFold(rules, history), []
    for one in _with_cuts(observations, now, here, silent_s):
        try:
            take(fold, one)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            log_failure(error)
            problems.append(CAPTURE_FAILED)
    for finding in problems[:1]:
        fold.found(finding)
    return FoldedTask(fold, fold.expire(now, awaited=awaited))


def _with_cuts(observations: Iterable[Observation], now: float, here: str, silent_s: float | None) -> list[Observation]:
    """The observations, and a `cut` at the last sign of life of each exchange whose proxy has ended before it."""
    found: list[Observation] = []
    heard: dict[tuple[str, str], float] = {}
    """Of exchanges that go on, and of webhooks by the proxy that receives their notifications."""
    for one in observations:
        found.append(one)
        exchange = one["exchange"], one.get("notified") or ""
        match one["kind"]:
            case "restarted":
                found += [_cut(name, one["at"]) for name, _ in heard]
                heard.clear()
            case "ended" | "left":
                heard.pop(exchange, None)
            case "sent" | "alive":
                heard[exchange] = one["at"]
            case "event" if one["live"] or exchange in heard:
                heard[exchange] = one["at"]
    cuts = [
        _cut(name, at)
        for (name, proxy), at in heard.items()
        if silent_s is not None and at + silent_s <= now and here != (proxy or name.partition(" ")[0])
    ]
    return sorted([*found, *cuts], key=lambda one: one["at"]) if cuts else found


def _cut(exchange: str, at: float) -> Observation:
    return {"kind": "cut", "exchange": exchange, "at": at}


def take(fold: TaskFold, one: Observation) -> None:
    """Fold one more observation. Raises KeyError or ValueError for what is none."""
    exchange, at = one["exchange"], one["at"]
    match one["kind"]:
        case "sent":
            turn = one["turn"]
            if not isinstance(turn, Turn):
                turn = turn_from_json(turn)
            more = {"returns_at_once": one["returns_at_once"], "if_generation": one["if_generation"]}
            fold.sent(exchange, turn, at, **more)
        case "event":
            fold.event(exchange, one["event"], at, live=one["live"], notified=bool(one["notified"]))
        case "alive":
            fold.alive(exchange, one["touched_at"])
        case "cut":
            fold.cut(exchange, at)
        case "ended":
            problem = None if one["problem"] is None else Finding.from_dict(one["problem"])
            findings = map(Finding.from_dict, one["findings"])
            fold.ended(exchange, at, problem=problem, final=one["final"], findings=findings)
        case "finding":
            fold.found(Finding.from_dict(one["finding"]))
        case "left" | "restarted":
            pass  # see `_with_cuts`
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
