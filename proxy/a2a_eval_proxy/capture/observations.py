"""What exchanges show of tasks, as JSON: the form in which another process folds them into turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import orjson
from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.recent import Recent

from ..protocol.operations import decode_json
from ..turn import Turn, TurnLinks
from .failures import CAPTURE_FAILED, log_failure
from .ordering import InOrder
from .records import TaskWatcher
from .turn_book import TurnBook

_MAX_EXCHANGES = 100_000

_PROCESS_ENDED = Finding(
    "process_ended", "the process that relayed the exchange ended before it was complete", Severity.WARNING, "capture"
)

_UNREAD = Finding(
    "capture_error",
    "what another process observed of this task cannot be read: calls may be in no turn",
    Severity.ERROR,
    "capture",
)

Observation = dict[str, Any]
"""`kind`, `exchange` (its id), `task` (its id), `at` (seconds), and what the kind needs. Kinds: `sent` (`turn`,
`returns_at_once`, `if_generation`), `event` (`event`, `live`, `size`, `notified`), `alive`, `ended` (`problem`,
`final`, `findings`), `finding` (`finding`)."""

_ALWAYS = {"kind", "exchange", "task", "at"}


class ObservedTurns(InOrder[Observation]):
    """Passes what several processes observe on to a turn book, in the order of its times."""

    def __init__(self, book: TurnBook, to_now: Callable[[float], float] = lambda at: at) -> None:
        """`to_now` makes a time of this process's clock of the `at` of an observation."""
        super().__init__(self.take)
        self._book = book
        self._to_now = to_now
        self._watchers: Recent[str, TaskWatcher] = Recent(_MAX_EXCHANGES)
        self._under_way: Recent[str, str] = Recent(_MAX_EXCHANGES)
        """The tasks of the exchanges that have not ended. Webhooks never do, whichever process they reach."""

    def put(self, at: float, one: Observation) -> None:
        """See `InOrder`."""
        self.follow(one)
        super().put(at, one)

    def follow(self, one: Observation) -> None:
        """Note which exchanges are under way."""
        if one["kind"] == "ended":
            self._under_way.pop(one["exchange"], None)
        elif one["kind"] in ("sent", "event") and not one.get("notified"):
            self._under_way[one["exchange"]] = one["task"]

    def take(self, one: Observation) -> None:
        """Take an observation. Those of one exchange come in their order, others in the order of their `at`.

        Never raises: what another process sends may be of another version.
        """
        try:
            self._take(one)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            log_failure(error)
            self._miss(one)

    def _miss(self, one: Observation) -> None:
        """The turn of the task lacks an observation."""
        try:
            if one.get("task"):
                self._book.report(one["task"], CAPTURE_FAILED, self._to_now(one["at"]))
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            log_failure(error)

    def _take(self, one: Observation) -> None:
        book, now, exchange = self._book, self._to_now(one["at"]), one["exchange"]
        match one["kind"]:
            case "sent":
                turn = turn_from_message(one["turn"])
                at_once, required = one["returns_at_once"], one.get("if_generation", 0)  # not in other versions
                self._watchers[exchange] = book.open(turn, now, returns_at_once=at_once, if_generation=required)
            case "event":
                watcher = self._watchers.get(exchange)
                if watcher is None:
                    watcher = self._watchers[exchange] = book.watch(notified=one["notified"])
                book.feed(watcher, one["event"], now, live=one["live"], size=one["size"])
            case "alive":
                if exchange in self._watchers:
                    book.touch(self._watchers[exchange], now)
            case "ended":
                if (watcher := self._watchers.pop(exchange, None)) is not None:
                    watcher.findings += map(Finding.from_dict, one["findings"])
                    problem = None if one["problem"] is None else Finding.from_dict(one["problem"])
                    book.end(watcher, now, problem=problem, final=one["final"])
            case "finding":
                book.report(one["task"], Finding.from_dict(one["finding"]), now)

    def source_ended(self, source: str, at: float) -> None:
        """The process whose exchanges have ids that begin with `source` ended without ending them."""
        for one in self.cut_off(source, at):
            self.put(at, one)

    def cut_off(self, source: str, at: float) -> list[Observation]:
        """The ends of the exchanges under way whose ids begin with `source`."""
        ended = {"kind": "ended", "at": at, "problem": _PROCESS_ENDED.to_dict(), "final": False, "findings": []}
        return [
            {**ended, "exchange": exchange, "task": task_id}
            for exchange, task_id in self._under_way.items()
            if exchange.startswith(source)
        ]


def turn_to_message(turn: Turn) -> dict[str, Any]:
    """The JSON form of a turn, with what other JSON leaves out."""
    links = None if turn.links is None else turn.links.to_dict()
    return {**turn.to_dict(), "parent_span_id": turn.parent_span_id, "in_store": turn.in_store, "links": links}


def turn_from_message(message: dict[str, Any]) -> Turn:
    turn = Turn.from_dict(message)
    turn.parent_span_id, turn.in_store = message["parent_span_id"], message["in_store"]
    links = message.get("links")  # not in other versions
    turn.links = None if links is None else TurnLinks.from_dict(links)
    return turn


def encoded(observation: Observation) -> bytes:
    """An observation as JSON, see `decoded`; `unread` in its place if its event is nested too deeply for that."""
    try:
        return orjson.dumps(observation)
    except TypeError:  # lone surrogates, integers beyond 64 bits
        try:
            return json.dumps(observation).encode()
        except RecursionError:
            return orjson.dumps(unread(observation["task"], observation["at"]))


def decoded(content: bytes) -> Observation:
    """Raises ValueError for what is no observation."""
    observation = decode_json(content)
    if not isinstance(observation, dict) or not observation.keys() >= _ALWAYS:
        raise ValueError(f"an observation is a JSON object with {', '.join(sorted(_ALWAYS))}: {content[:200]!r}")
    return observation


def unread(task_id: str, at: float) -> Observation:
    """What the turn of a task says in the place of an observation that cannot be read."""
    return {"kind": "finding", "exchange": "", "task": task_id, "at": at, "finding": _UNREAD.to_dict()}
