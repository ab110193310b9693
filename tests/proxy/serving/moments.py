"""Proxies whose time is made up: it goes to the next timer as soon as nothing else is to be done."""

from __future__ import annotations

import asyncio
import json
import selectors
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from types import SimpleNamespace
from typing import Any

from a2a_eval_proxy.capture.turn_book import BookEntry
from a2a_eval_proxy.capture.turn_changes import TurnChanges
from a2a_eval_proxy.capture.visibility import CallVisibility
from a2a_eval_proxy.clock import Clock
from a2a_eval_proxy.privacy.policy import NO_PRIVACY
from a2a_eval_proxy.serving.agent_capture import AgentCapture
from a2a_eval_proxy.settings.settings import Agent, Settings
from a2a_eval_proxy.store import StoreUnreachableError
from a2a_eval_proxy.store.base import KeptVerdict
from a2a_eval_proxy.store.dialects import SQLITE
from a2a_eval_proxy.store.observations import ObservationTable
from a2a_eval_proxy.store.schema import statements
from a2a_eval_proxy.telemetry.counters import Metrics
from a2a_eval_proxy.telemetry.turn_listener import TurnListener
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding

Json = dict[str, Any]
START = 10_000.0
STATEMENTS = {
    "INSERT INTO observations": "written",
    "SELECT number, content": "read",
    "UPDATE observations SET": "kept until",
    "SELECT task FROM": "silent since",
    "DELETE FROM observations": "deleted until",
    "INSERT INTO proxies": "alive",
    "SELECT proxy, heard_at": "others missed since",
    "DELETE FROM proxies": "others forgotten",
}
"""What the log does with its table, by how the statement begins."""
TIME = SimpleNamespace(now=START)
CLOCK = Clock(lambda: TIME.now, lambda: TIME.now)


class QuickLoop(asyncio.SelectorEventLoop):
    """What is meant for a thread is done at once."""

    def __init__(self) -> None:
        super().__init__(Selector())

    def time(self) -> float:
        return float(TIME.now)

    def run_in_executor(self, executor: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        done = self.create_future()
        done.set_result(function(*arguments))
        return done


class Selector(selectors.SelectSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing would ever happen"
        TIME.now += timeout
        return super().select(0)


def quickly(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """The test, on such a loop."""

    @wraps(test)
    def run(**fixtures: Any) -> None:
        TIME.now = START
        with asyncio.Runner(loop_factory=QuickLoop) as runner:
            runner.run(test(**fixtures))

    return run


def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in statements(SQLITE):
        connection.execute(statement)
    return connection


class Kept(TurnListener):
    """A store, what stands for a pipeline, and a listener: a turn that is taken is in the store at once."""

    def __init__(self, tables: sqlite3.Connection, turns: dict[str, Json], *, shared: bool, scores: bool) -> None:
        self.shared, self.scores = shared, scores
        self._tables = tables
        self.turns = turns
        self.verdict = KeptVerdict("suite", {}, "passed", {})
        self.away_until = 0.0
        self.lines: list[tuple[Any, ...]] = []
        """What was done, each after how many seconds."""

    def note(self, *what: Any) -> None:
        self.lines.append((round(TIME.now - START, 3), *what))

    def reach(self, *what: Any) -> None:
        self.note(*what)
        if TIME.now - START < self.away_until:
            raise StoreUnreachableError("the database is away")

    def observations(self, agent: str) -> ObservationTable:
        def done(statement: str, values: Json) -> sqlite3.Cursor:
            begin = " ".join(statement.split()[:3])
            moments = [round(value - START, 3) for value in values.values() if isinstance(value, float)]
            self.reach(STATEMENTS.get(begin, begin), *moments)
            return self._tables.execute(statement, values)

        async def change(statement: str, values: Json) -> int:
            return done(statement, values).rowcount

        async def read(statement: str, values: Json, decode: Callable[[Any], Any]) -> Any:
            return decode(done(statement, values))

        return ObservationTable(read, change, agent)

    async def of_task(self, task_id: str, agent: str, most: int) -> list[Json]:
        self.reach("turns", most)
        return [item for item in self.turns.values() if item["task_id"] == task_id]

    async def written(self) -> None: ...

    async def kept_verdict(self, run: str) -> KeptVerdict:
        return self.verdict

    async def keep_verdict(self, run: str, said: KeptVerdict) -> None:
        self.note("verdict", run, said.status)

    def take(self, turn: Turn, *, again: bool = False) -> None:
        self.turns[turn.turn_id] = turn.to_dict()
        self.note("again" if again else "take", turn.turn_id, turn.state and turn.state[11:], *codes(turn.findings))

    def keep_open(self, turn: Turn) -> None:
        self.turns[turn.turn_id] = turn.to_dict()
        self.note("open", turn.turn_id)

    def changed(self, changes: TurnChanges) -> None:
        self.note("changed", changes.turn.turn_id)

    def ended(self, turn: Turn) -> None:
        self.note("ended", turn.turn_id)

    def revise(self, item: Json, *, findings: Sequence[Finding]) -> bool:
        item["findings"] += [finding.to_dict() for finding in findings]
        self.note("revise", item["turn_id"], *codes(findings))
        return True


def codes(findings: Sequence[Finding]) -> list[str]:
    return [finding.code for finding in findings if finding.code != "no_capture"]


class Proxy:
    """What a proxy has of an agent, behind which there are tasks."""

    def __init__(
        self,
        other: Proxy | None = None,
        *,
        shared: bool = False,
        keeps_open: bool = True,
        scores: bool = False,
        parts: int = 1,
        awaits: Callable[[str], Awaitable[bool]] | None = None,
        **settings: Any,
    ) -> None:
        """`other`: another one, with the same store."""
        self.tables = database() if other is None else other.tables
        turns = {} if other is None else other.kept.turns
        self.kept = Kept(self.tables, turns, shared=shared, scores=scores)
        self.agent = Agent("", Settings(upstream="http://agent.example", **settings))
        self.metrics = Metrics()
        self.capture = AgentCapture(
            self.agent,
            self.kept,  # type: ignore[arg-type]
            self.kept,  # type: ignore[arg-type]
            self.kept,
            CallVisibility(negotiate="declared", dialects=False, logs=lambda: False),
            NO_PRIVACY,
            self.metrics,
            awaits=awaits,
            keeps_open_turns=keeps_open,
            parts=parts,
        )
        self.capture.start()

    def sent(self, turn_id: str, task: str = "t", conversation: str = "c") -> BookEntry:
        """A message that continues a task, "" for none."""
        turn = Turn(turn_id, "run", self.agent.settings.upstream, "JSONRPC", "1.0", TIME.now, task_id=task)
        turn.conversation_id = conversation
        return self.capture.book.open(turn, TIME.now)

    def shown(
        self,
        entry: BookEntry,
        state: str,
        task: str = "t",
        *,
        conversation: str = "c",
        size: int = 100,
        live: bool = True,
    ) -> None:
        update = {"taskId": task, "contextId": conversation, "status": {"state": f"TASK_STATE_{state}"}}
        self.capture.book.feed(entry, {"statusUpdate": update}, TIME.now, live=live, size=size)

    def ended(self, entry: BookEntry) -> None:
        self.capture.book.end(entry, TIME.now)

    def observed(self) -> list[str]:
        """The kinds of the observations in the store."""
        rows = self.tables.execute("SELECT content FROM observations ORDER BY number").fetchall()
        return [one["kind"] for (content,) in rows for one in json.loads(content)]

    def done(self, *what: str) -> list[tuple[Any, ...]]:
        """When this was done with the store, and with what."""
        return [line for line in self.kept.lines if line[1] in what]
