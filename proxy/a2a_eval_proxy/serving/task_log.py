"""The tasks that are more than one exchange: what is observed of them is kept in the store, and folded into turns.

Whoever observes something of a task, or finds that nobody else does any more, folds all that is known of it. A fold
that another proxy has overtaken is made again: so the turns show everything in the end, whoever folds last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from a2a_tool_capture import Finding, Severity, ToolCall
from a2a_tool_capture.recent import Recent, RecentKeys
from a2a_tool_capture.same_call import new_calls
from a2a_tool_capture.wire import SETTLED_STATES, TERMINAL_STATES

from ..capture.observations import FoldedTask, Observation, decoded, encoded, fold_task, turn_from_json
from ..capture.task_fold import LINGER_S, SILENT_S, FoldRules
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..memory import share
from ..privacy.policy import Privacy
from ..protocol.answers import conversation_of, state_of
from ..scoring.pipeline import Pipeline
from ..settings.settings import Agent
from ..store import Store, StoreError
from ..store.base import TurnJson
from ..store.observations import ObservationTable, Observed, task_key
from ..telemetry.problem_log import ProblemLog
from ..turn import Turn

logger = logging.getLogger(__name__)

MAX_UNSENT_BYTES = share(16)
"""Of all agents: of observations that the store has not taken, where one event has no more; further events are left
out."""

MAX_TASK_BYTES = 16 * 1024 * 1024
"""Of the observations of one task by this proxy, where one event has no more; further events are left out."""

_PAUSE_S, _RETRY_S = 0.005, 1.0
"""Between two writes: what was observed in this time is lost where the proxy is killed."""

_SOON_S, _OTHERS_S = 0.02, 0.1
"""How long after an observation its task is folded: where others may have more of it to add, they come first in the
order of times."""

SWEEP_S = 4.0
"""Time between two searches for tasks that nobody follows any more."""

BEAT_S = 2.0
"""Time between two signs of life of a proxy, where several have one store."""

_MAX_TURNS = 200
"""Maximum number of stored turns of a task that are read, the newest ones."""

_KEEP_S, _KEEP_WAITING_S = 60.0, 3600.0
"""How long observations stay after the turns that show them are closed; and where the task waits for its user."""

_PATIENCE_S = 30.0
"""How long a finding of a task waits for a turn of it to be stored."""

EVENTS_LEFT_OUT = Finding(
    "calls_missed",
    "the store was away for too long, or the task too large: not all that was observed of it was kept",
    Severity.WARNING,
    "capture",
)


class OpenTask(NamedTuple):
    """A task that is not over, as it was folded last."""

    turns: Sequence[Turn]
    answered: bool = False
    """Whether its turn has its answer: it closes soon."""


class TaskLog:
    """Belongs to one event loop. `close` folds what is there; nothing comes after it."""

    def __init__(
        self,
        log: ObservationTable,
        store: Store,
        pipeline: Pipeline,
        agent: Agent,
        rules: FoldRules,
        privacy: Privacy,
        book: TurnBook,
        closed: Callable[[Turn, bool], None],
        *,
        awaits: Callable[[str], Awaitable[bool]] | None,
        keeps_open: bool,
        max_unsent_bytes: int = MAX_UNSENT_BYTES,
    ) -> None:
        """`closed` receives turns that have ended, and whether they are stored as closed already, and show more now;
        `book` what changes in open ones. `awaits` says whether notifications of a task, whose id is as in the store,
        may come; None: never. `keeps_open`: copies of open turns are stored.
        """
        self._table = log
        self._keeps_open = keeps_open
        self._max_unsent_bytes = max_unsent_bytes
        self._store = store
        self._pipeline = pipeline
        self._agent = agent
        self._rules = rules
        self._privacy = privacy
        self._source = book.source
        self._book = book
        self._closed = closed
        self._awaits = awaits
        self._numbers = count(1)
        self._unsent: dict[str, list[Observation]] = {}
        """By task id."""
        self._unsent_bytes = 0
        self._bytes: Recent[str, int] = Recent(10_000)
        self._left_out: RecentKeys[tuple[str, str]] = RecentKeys(10_000)
        """Tasks, and exchanges of which events were left out: the turn of each is to say so."""
        self._task_ids: Recent[str, str] = Recent(100_000)
        """By key."""
        self._due: dict[str, float] = {}
        """The tasks that are to be folded, and when, by key."""
        self._news: dict[str, int] = {}
        """Keys of tasks of which something was observed that is not folded yet, in that order; how often."""
        self._tasks: Recent[str, str] = Recent(10_000)
        """The last task of which something was observed, by conversation."""
        self._beat_at = 0.0
        """When this proxy said last that it is there; 0 as long as it was not."""
        self._gone: dict[str, float] = {}
        """The proxies that were killed, and when they were there last."""
        self._open: dict[str, OpenTask] = {}
        """By task id."""
        self._swept_at = 0.0
        self._at_work, self._sending = asyncio.Lock(), asyncio.Lock()
        self._came, self._sent = asyncio.Event(), asyncio.Event()
        self._trouble = ProblemLog(logger, "the store could not be asked about tasks {count} time(s)")

    # ── what is observed ────────────────────────────────────────────────────────────────────────────────

    def put(self, task_id: str, observation: Observation) -> None:
        """Keep an observation. Neither waits nor raises."""
        size = observation.get("size", 0)
        known = self._bytes.get(task_id, 0) + size
        if observation["kind"] == "event" and size:
            others = self._unsent_bytes + self._table.held_bytes
            if known > max(MAX_TASK_BYTES, size) or others + size > max(self._max_unsent_bytes, size):
                if (task_id, observation["exchange"]) in self._left_out:
                    return
                self._left_out.add((task_id, observation["exchange"]))
                finding = EVENTS_LEFT_OUT.to_dict()
                observation, size = {**observation, "kind": "finding", "finding": finding, "event": None}, 0
            else:
                self._bytes[task_id] = known
        if observation["kind"] == "ended" and (task_id, observation["exchange"]) in self._left_out:
            observation = {**observation, "findings": [*observation["findings"], EVENTS_LEFT_OUT.to_dict()]}
        if observation["kind"] == "sent":
            before = self._open.get(task_id, OpenTask(()))
            self._open[task_id] = before._replace(turns=[*before.turns, turn_from_json(observation["turn"])])
        if (event := observation.get("event")) is not None and (conversation := conversation_of(event)):
            self._tasks[conversation] = task_id
        self._unsent_bytes += size
        observation = {**observation, "id": f"{self._source} {next(self._numbers)}", "size": size}
        self._unsent.setdefault(task_id, []).append(observation)
        self._came.set()

    @property
    def open_turns(self) -> list[Turn]:
        """Copies of open turns, as they were folded last."""
        return [turn for task in self._open.values() for turn in task.turns]

    @property
    def number_answered(self) -> int:
        """Number of open tasks whose turn has its answer."""
        return sum(task.answered for task in self._open.values())

    @property
    def behind(self) -> int:
        """Number of tasks of which something was observed that is not folded yet."""
        return len({*map(self._key, self._unsent), *self._news})

    def is_behind(self, conversation_id: str) -> bool:
        """Whether something was observed of this conversation that is not folded yet."""
        task_id = self._tasks.get(conversation_id)
        return task_id is not None and (task_id in self._unsent or self._key(task_id) in self._news)

    async def settled(self) -> None:
        """Returns when all that was observed so far is folded, and no open turn has its answer."""
        await self.folded()
        while self.number_answered:  # noqa: ASYNC110  # `run` works on it
            await asyncio.sleep(_PAUSE_S)

    async def folded(self) -> None:
        """Returns when all that was observed so far is folded."""
        await asyncio.sleep(_OTHERS_S if self._store.shared else 0.0)
        while True:
            with suppress(StoreError, TimeoutError):  # `run` reports them
                async with self._at_work:
                    return await self._fold_news()
            await asyncio.sleep(_RETRY_S)

    # ── work ────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Keep and fold what comes. Ends by being cancelled."""
        await asyncio.gather(self._send_always(), self._fold_always())

    async def _send_always(self) -> None:
        """Folding may take long: what comes meanwhile is kept at once."""
        while True:
            await self._came.wait()
            self._came.clear()
            await asyncio.sleep(await self._tried(self._send))

    async def _fold_always(self) -> None:
        while True:
            due = min(self._due.values(), default=float("inf")) - CLOCK.now()
            if due > 0:
                self._sent.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(due, BEAT_S)):  # in Python 3.11, `wait_for` may lose a cancellation
                        await self._sent.wait()
            await asyncio.sleep(await self._tried(self._see_to_tasks))

    async def _tried(self, work: Callable[[], Awaitable[None]]) -> float:
        """Returns how long to pause after this work, which is repeated where the store fails it."""
        try:
            await work()
        except (StoreError, TimeoutError) as error:
            logger.debug("observations could not be kept or folded: %r", error)
            self._trouble.seen()
        except Exception:  # the work is repeated
            logger.exception("observations could not be kept or folded; they stay where they are")
        else:
            return _PAUSE_S
        self._came.set()
        return _RETRY_S

    async def _see_to_tasks(self) -> None:
        async with self._at_work:
            await self._beat()
            now = CLOCK.now()
            for key in [key for key, at in self._due.items() if at <= now]:
                await self._fold(key)
            if now - self._swept_at > SWEEP_S:
                await self._sweep(now - (SILENT_S if self._swept_at else 0.0))
                self._swept_at = now

    async def close(self) -> None:
        """Keep and fold what is left. Open turns are left to a later process, if it is to have them; else they are
        closed, as incomplete where they have no answer."""
        try:
            async with self._at_work:
                await self._fold_news()
                for task_id in [] if self._keeps_open else list(self._open):
                    await self._fold(self._key(task_id), stops=True)
                if self._beat_at and self._store.shared:
                    await self._table.leave(self._source)
                elif self._beat_at:  # nobody was there for what is notified from now on
                    await self._table.present(self._source, CLOCK.now(), 0.0)
        except StoreError as error:
            if self._unsent or self._news or self._open:
                logger.error("what was observed last of tasks is not in their turns: %s", error)
        for task_id, one in self._open.items():
            self._open[task_id] = one._replace(answered=False)  # nobody closes it here any more
        self._trouble.close()

    async def _beat(self) -> None:
        """Say that this proxy is there, and learn which ones were killed: what they had begun is folded as it is."""
        now = CLOCK.now()
        if now - self._beat_at < BEAT_S:
            return
        self._beat_at = now
        gone = await self._table.present(self._source, now, SILENT_S if self._store.shared else 0.0)
        if gone.keys() - self._gone.keys():
            self._due |= dict.fromkeys(await self._table.tasks(), 0.0)
        self._gone = gone

    async def _sweep(self, silent_since: float) -> None:
        """Find tasks that nobody follows any more, and forget what is in turns for a while."""
        for key in await self._table.open_tasks(silent_since):
            self._due.setdefault(key, 0.0)
        await self._table.expire(CLOCK.now())

    async def _fold_news(self) -> None:
        """Keep and fold what has come so far."""
        await self._send()
        for key in [*self._news]:
            await self._fold(key)

    async def _send(self) -> None:
        async with self._sending:
            unsent = {task_id: list(observations) for task_id, observations in self._unsent.items()}
            rows = []
            for task_id, observations in unsent.items():
                key = self._key(task_id)
                self._task_ids[key] = task_id
                texts = [encoded({**one, "task": task_id}) for one in observations]
                rows.append(Observed(key, max(one["at"] for one in observations), f"[{','.join(texts)}]"))
            if rows:
                await self._table.add(rows)
            for (task_id, observations), row in zip(unsent.items(), rows, strict=True):
                del self._unsent[task_id][: len(observations)]
                if not self._unsent[task_id]:
                    del self._unsent[task_id]
                self._unsent_bytes -= sum(one["size"] for one in observations)
                if any(map(self._is_news, observations)):
                    self._news[row.task] = self._news.get(row.task, 0) + 1
                    self._due[row.task] = CLOCK.now() + (_OTHERS_S if self._store.shared else _SOON_S)
            self._sent.set()

    def _key(self, task_id: str) -> str:
        return task_key(self._agent.key, task_id, self._agent.name)

    def _is_news(self, observation: Observation) -> bool:
        """Whether an observation may change a turn otherwise than by making its open one longer."""
        is_watched = self._book.live is not None
        if observation["kind"] == "event" and observation["live"] and not (observation["notified"] or is_watched):
            event: dict[str, Any] = observation["event"]
            return "message" in event or state_of(event) in SETTLED_STATES
        return bool(observation["kind"] != "alive")

    # ── folding ─────────────────────────────────────────────────────────────────────────────────────────

    async def _fold(self, key: str, *, stops: bool = False) -> None:
        """Fold a task, and pass on what is new, until nothing came meanwhile."""
        rows: list[tuple[int, str]] = []
        is_new, known = True, None
        try:
            while is_new and (not rows or await self._table.count(key) > len(rows)):
                self._due.pop(key, None)
                known = self._news.get(key)
                rows = await self._table.of_task(key)
                is_new = bool(rows) and await self._fold_rows(key, rows, stops=stops)
                if is_new:
                    await self._pipeline.written()  # another proxy may have written its turns since, having seen more
        except BaseException:
            self._due[key] = 0.0  # it is tried again
            raise
        if self._news.get(key) == known:  # else more has come since it was read
            self._news.pop(key, None)

    async def _fold_rows(self, key: str, rows: Sequence[tuple[int, str]], *, stops: bool) -> bool:
        """Returns whether turns were passed on."""
        observations = await asyncio.to_thread(_read, rows)
        task_id = next((one["task"] for one in observations if one.get("task")), self._task_ids.get(key, ""))
        if not task_id:
            logger.error("what was observed of a task cannot be read: its calls are in no turn; its rows: %s", key)
            await self._table.keep_until(key, rows[-1][0], CLOCK.now() + _KEEP_S)
            return False
        stored = await self._stored(task_id)
        sent = {one["turn"]["turn_id"] for one in observations if one["kind"] == "sent"}
        history = [self._seen(item) for item in stored.values() if item["turn_id"] not in sent]
        awaited = self._awaits is not None and await self._awaits(self._privacy.identifier(task_id))
        now = CLOCK.now()
        folded: FoldedTask = await asyncio.to_thread(
            fold_task, observations, history, self._rules, now, awaited=awaited, gone=self._gone
        )
        fold = folded.fold
        if stops:
            fold.stop(now)
        news = [turn for turn in fold.closed if self._is_new(turn, stored)]
        for turn in news:
            before = stored.get(turn.turn_id)
            again = before is not None and before["status"] != "open"
            self._closed(turn, again)
            if before is not None and again and Turn.from_dict(before).visibility != turn.visibility:
                await self._withdraw_verdict(turn.run)
        is_told = await self._add_findings(fold.late_findings, stored, history) if fold.late_findings else True
        if fold.open is None:
            self._open.pop(task_id, None)
            waits = fold.merger.state is not None and fold.merger.state not in TERMINAL_STATES
            seen_at = max((one["at"] for one in observations), default=now)
            if is_told or now - seen_at > _PATIENCE_S:
                if not waits:
                    self._book.over(task_id)
                if fold.closed or history or now - seen_at > _PATIENCE_S:
                    await self._table.keep_until(key, rows[-1][0], seen_at + (_KEEP_WAITING_S if waits else _KEEP_S))
                else:
                    self._due.setdefault(key, now + _PATIENCE_S)
            else:
                self._due.setdefault(key, now + _RETRY_S)
            return bool(news)
        closes_soon = folded.due_at is not None and folded.due_at <= now + LINGER_S
        self._open[task_id] = OpenTask(fold.open_turns(), bool(fold.answered and closes_soon))
        for turn in self._open[task_id].turns:
            if self._book.live is not None:
                self._book.live.changed(turn.turn_id, partial(list, (turn,)))
            if self._keeps_open and self._is_new(turn, stored):
                self._pipeline.keep_open(turn)
        if folded.due_at is not None:
            self._due.setdefault(key, folded.due_at + 0.001)
        elif awaited:
            self._due.setdefault(key, now + self._rules.timeout_s / 4)
        return bool(news)

    async def _stored(self, task_id: str) -> dict[str, TurnJson]:
        """The last turns of a task in the store, by id, oldest first."""
        await self._pipeline.written()
        return {
            item["turn_id"]: item
            for item in await self._store.of_task(self._privacy.identifier(task_id), self._agent.key, _MAX_TURNS)
            if self._agent.owns(item)
        }

    def _seen(self, item: TurnJson) -> Turn:
        """A turn of the store, with nothing that cannot be compared with what agents show: that is not redacted."""
        turn = Turn.from_dict(item)
        if not self._privacy.changes_turns:
            return turn
        calls = [replace(call, arguments=None, result=None, error=None) for call in turn.tool_calls]
        return replace(turn, tool_calls=calls, response_text="")

    def _is_new(self, turn: Turn, stored: Mapping[str, TurnJson]) -> bool:
        """Whether a turn shows what the store does not have, which may have more from traces."""
        item = stored.get(turn.turn_id)
        if item is None:
            return True
        if self._privacy.changes_turns:
            turn = self._privacy.stored(self._privacy.redacted(turn))
        return not _shows(item, turn.to_dict())

    async def _add_findings(
        self,
        late_findings: Sequence[tuple[Finding, Sequence[ToolCall]]],
        stored: Mapping[str, TurnJson],
        history: Sequence[Turn],
    ) -> bool:
        """Add what the last turn of the history gets; returns whether that is done."""
        if not history:
            return False
        last = history[-1]
        known = [call for turn in history for call in turn.tool_calls]
        news = dict.fromkeys(finding for finding, calls in late_findings if not calls or new_calls(calls, known))
        findings = [finding for finding in news if finding not in last.findings]
        item = stored[last.turn_id]
        if findings and item["status"] == "pending" and self._pipeline.scores:
            return False
        if findings and self._pipeline.revise(item, findings=findings):
            await self._withdraw_verdict(last.run)
        return True

    async def _withdraw_verdict(self, run: str) -> None:
        """What a command said of a run stands no longer: what is known of the calls of its turns is not what it was."""
        said = await self._store.kept_verdict(run)
        if said is not None and not said.of and said.status == "passed":
            await self._store.keep_verdict(run, replace(said, status="incomplete", verdict=None))


def _read(rows: Sequence[tuple[int, str]]) -> list[Observation]:
    """The observations in the order of their times; those of one time as they were added.

    Each is there once, also where the store has taken it twice: an answer that was lost is not told from one that never
    came.
    """
    found: dict[str, Observation] = {}
    for number, content in rows:
        for place, one in enumerate(decoded(content)):
            found.setdefault(one.get("id", f"{number} {place}"), one)
    return sorted(found.values(), key=lambda one: one["at"])


def _shows(item: TurnJson, turn: TurnJson) -> bool:
    """Whether a stored turn, which may have more from traces, shows what was folded."""
    same = all(item[name] == turn[name] for name in ("state", "ended_at", "response_text"))
    known = [
        (call["id"], call["name"], arguments) for call in item["tool_calls"] for arguments in (call["arguments"], None)
    ]
    return (
        same
        and all((call["id"], call["name"], call["arguments"]) in known for call in turn["tool_calls"])
        and all(finding in item["findings"] for finding in turn["findings"])
    )
