"""Several proxies over one PostgreSQL store: each task has one owner, which folds what all of them observe."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.recent import Recent

from ..capture.observations import Observation, ObservedTurns, decoded, encoded, unread
from ..clock import CLOCK
from ..memory import share
from ..settings.settings import Agent
from ..store import StoreError
from ..store.shared_tasks import LeftObservation, SharedTasks, task_key
from ..telemetry.problem_log import ProblemLog
from .reports import ScoringReports

logger = logging.getLogger(__name__)

MAX_WAIT_S = 5.0
"""Longest time that an observation waits for proxies that may have an earlier one."""

_PAUSE_S, _IDLE_S = 0.1, 0.4
_LEASE_S, _LATE_S = 6.0, 2.0
"""For how long a proxy owns its tasks without a sign of life; and after how long without a lease it is no more: until
then the store may only have been away."""
_SWEEP_EVERY_S = 1.0
_COMPARE_EVERY_S, _COMPARISONS = 600.0, 5
_CLOSE_S = 2.0
_UNDER_WAY_S = 0.05
"""What passes at most between the time of an observation and `take`."""
_RELEASE_AFTER_S = 60.0
_PATIENCE_S = 5.0
"""Longest time that the store may take to name the owner of a task; then this proxy folds the task itself."""

_MAX_UNSENT_BYTES = share(16)
"""Of observations that the store has not taken; further events are lost."""

_OTHERS = "others"

_MAX_NOTIFIED = 10_000

_NOTIFICATIONS_MISSED = Finding(
    "calls_missed",
    "a proxy ended that may have received notifications of this task: calls may be in no turn, or in a later one",
    Severity.WARNING,
    "capture",
)


@dataclass(slots=True)
class _Task:
    """A task of which something was observed here."""

    since: float
    used_at: float
    owner: str = ""
    """ "" as long as it is not known."""
    waiting: list[tuple[float, Observation]] | None = None


class Replicas(ObservedTurns):
    """Takes what is observed here, and what other proxies have observed of the tasks that this one owns.

    Belongs to one event loop. Times are those of the steady clock here, and the database's in the store.
    """

    def __init__(self, table: SharedTasks, reports: ScoringReports, agent: Agent) -> None:
        super().__init__(reports.capture.book, CLOCK.of_steady)
        self.join(_OTHERS)
        self.proxy = secrets.token_hex(8)
        self._table = table
        self._reports = reports
        self._agent = agent
        self._ahead_s = CLOCK.of_steady(0.0)
        """What the database's clock is ahead of the steady clock, as estimated from its answers (Cristian 1989)."""
        self._tasks: dict[str, _Task] = {}
        """By key."""
        self._dead: set[str] = set()
        """The proxies whose lease has ended."""
        self._dead_since: dict[str, float] = {}
        self._ended: set[str] = set()
        """Those of them that are known to be no more."""
        self._left: list[LeftObservation] = []
        """What was received and is not folded yet."""
        self._folded: dict[str, float] = {}
        """Until when turns show what the store has of a task, by key."""
        self._notified: Recent[str, float] = Recent(_MAX_NOTIFIED)
        """When a webhook was last notified of a task."""
        self._forgetting: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._users = 0
        self._observes = asyncio.Event()
        self._unsent: list[tuple[str, float, str, str]] = []
        self._unsent_bytes = 0
        self._took_s, self._compared_at = float("inf"), 0.0
        """The answer that `_ahead_s` is from, and when it came."""
        self._beat_at = self._swept_at = self._released_at = 0.0
        self._trouble = ProblemLog(logger, "the store could not be asked which proxy owns a task {count} time(s)")

    def observed(self, at: float, observation: Observation) -> None:
        """Take what was observed in this process, with times of its clock."""
        self.put(CLOCK.steady(at), {**observation, "at": CLOCK.steady(observation["at"])})

    def put(self, at: float, observation: Observation) -> None:
        """Take what was observed here. Neither waits nor raises."""
        if not observation["exchange"].startswith((f"{self.proxy} ", "webhook ")):
            observation["exchange"] = f"{self.proxy} {observation['exchange']}"
        self.follow(observation)
        self._observes.set()
        key, now = self._key(observation["task"]), _now()
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = _Task(now, now, waiting=[])
        task.used_at = now
        if task.waiting is not None:
            task.waiting.append((at, observation))
        else:
            self._pass_on(key, task, at, observation)

    def _key(self, task_id: str) -> str:
        """See `task_key`."""
        return task_key(self._agent.key, task_id, self._agent.name)

    def source_ended(self, source: str, at: float) -> None:
        """See `ObservedTurns`. `source`: of a process of this proxy."""
        super().source_ended(f"{self.proxy} {source}", at)

    def take(self, one: Observation) -> None:
        """See `ObservedTurns`."""
        super().take(one)
        if one.get("notified"):
            self._notified[one["task"]] = one["at"]
        if "left_at" in one:
            key = self._key(one["task"])
            self._folded[key] = max(self._folded.get(key, 0.0), one["left_at"])

    def _pass_on(self, key: str, task: _Task, at: float, observation: Observation) -> None:
        left_at, ours = at + self._ahead_s, task.owner == self.proxy
        content = encoded({**observation, "at": observation["at"] + self._ahead_s}).decode()
        if self._unsent_bytes < _MAX_UNSENT_BYTES or observation["kind"] != "event":
            self._unsent_bytes += len(content)
            self._unsent.append((key, left_at, content, self.proxy if ours else ""))
        if ours:
            super().put(at, {**observation, "left_at": left_at})
        elif observation["kind"] == "sent":
            self._reports.lost(observation["turn"]["turn_id"])  # it is the owner's now

    async def settled(self) -> None:
        """Returns when what was observed here has been left for the owners of its tasks, and what other proxies have
        observed so far of tasks of this one is in its turns."""
        until = _now()
        while self._unsent or self._unowned() or self.reported_until() < until:  # noqa: ASYNC110  # `run` works on it
            await asyncio.sleep(_PAUSE_S)

    async def open(self, stack: AsyncExitStack, ask_for_marks: Callable[[], None] = lambda: None) -> None:
        """`start` and `run`; `close` at the end of the stack, or of the last one of several, when nothing more is
        observed here."""
        self._users += 1
        stack.push_async_callback(self._leave)
        if self._users == 1:
            await self.start()
            self._running = asyncio.create_task(self.run(ask_for_marks))

    async def _leave(self) -> None:
        self._users -= 1
        if not self._users:
            if self._running is not None:
                self._running.cancel()
            await self.close()

    async def start(self) -> None:
        """Compare the clocks; without the store that happens later."""
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                for _ in range(_COMPARISONS):
                    await self._beat(_now())

    async def run(self, ask_for_marks: Callable[[], None]) -> None:
        """Exchange observations with other proxies. Ends by being cancelled.

        `ask_for_marks` has the other sources of this proxy `mark` how far they have reported: it reports no more.
        """
        while True:
            if not (self._unsent or self.waiting or self._unowned()):
                self._observes.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._observes.wait(), _IDLE_S)
            ask_for_marks()  # they come in the pause
            await asyncio.sleep(_PAUSE_S)
            await self._exchange()
            self.mark(_OTHERS, _now() - MAX_WAIT_S)
            self._reports.capture.book.expire(CLOCK.now())

    async def close(self) -> None:
        """Send what is not sent; the tasks of this proxy may have other owners from now on."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._exchange()
        for key in self._unowned():
            self._own(key, self.proxy)
        self.leave(_OTHERS)
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._reports.written()
                await self._table.done(self.proxy, self._folded)  # what is open is stored as a turn
                await self._table.leave(self.proxy)
        if self._forgetting is not None:
            self._forgetting.cancel()
            await asyncio.gather(self._forgetting, return_exceptions=True)
        self._trouble.close()

    async def _exchange(self) -> None:
        now = _now()
        try:
            if unowned := self._unowned():
                async with asyncio.timeout(_PATIENCE_S):
                    owners = await self._table.claim(unowned, self.proxy)
                for key, owner in owners.items():
                    self._own(key, owner)
            if self._unsent:
                sent = len(self._unsent)
                await self._table.send(self._unsent[:sent])
                self._unsent_bytes -= sum(len(content) for _, _, content, _ in self._unsent[:sent])
                del self._unsent[:sent]
            reported_until = await self._beat(now)
            await self._receive()
            self.mark(_OTHERS, reported_until)
            if now - self._swept_at > _SWEEP_EVERY_S:
                self._swept_at = now
                await self._sweep(now)
        except (StoreError, TimeoutError) as error:
            logger.debug("observations could not be exchanged: %r", error)
            self._trouble.seen()
            for key in self._unowned():
                if now - self._tasks[key].since > _PATIENCE_S:
                    self._own(key, self.proxy)
        except Exception:
            logger.exception("observations could not be exchanged with other proxies")

    async def _beat(self, now: float) -> float:
        """Say that this proxy is alive, and until when all of its processes have sent what they observed; returns
        until when all proxies have."""
        stalled = self._beat_at and now - self._beat_at > _LEASE_S
        began, reported = _now(), min(now, self.reported_until(but=_OTHERS)) - _UNDER_WAY_S
        if self._unsent or self._unowned():  # came meanwhile
            unsent = (at - self._ahead_s for _, at, _, reader in self._unsent if not reader)
            reported = min((reported, *unsent, *self._waiting_since()))
        at, others, self._dead = await self._table.beat(self.proxy, _LEASE_S, reported + self._ahead_s)
        self._beat_at, took_s = now, _now() - began
        if took_s < self._took_s or now - self._compared_at > _COMPARE_EVERY_S:  # the quickest answer is the exactest
            self._ahead_s, self._took_s, self._compared_at = at - began - took_s / 2, took_s, now
        if stalled:  # another proxy may own them now
            self._tasks = {key: task for key, task in self._tasks.items() if task.waiting is not None}
        return reported if others is None else min(reported, others - self._ahead_s)

    def _waiting_since(self) -> list[float]:
        return [task.waiting[0][0] for task in self._tasks.values() if task.waiting]

    async def _receive(self) -> None:
        """Put what other proxies have left for this one among what was observed here.

        What an earlier owner of a task has read is read again from the message of the turn that it has not stored.
        """
        self._left += await self._table.receive(self.proxy)  # kept if the next question is not answered
        left = self._read(sorted(self._left))
        sent = [
            observation["turn"]["turn_id"]
            for one, observation in left
            if one.read_before and observation["kind"] == "sent"
        ]
        stored = await self._table.stored(sent) if sent else set()
        stored.update(turn.turn_id for turn in self._reports.capture.book.open_turns if sent)  # ours once more
        again: set[str] = set()
        for one, observation in left:
            if one.read_before and observation["kind"] == "sent" and observation["turn"]["turn_id"] not in stored:
                again.add(one.task)
            if one.read_before and one.task not in again:
                self._folded[one.task] = max(self._folded.get(one.task, 0.0), one.at)
            else:
                at = observation["at"] - self._ahead_s
                super().put(one.at - self._ahead_s, {**observation, "at": at, "left_at": one.at})
                if one.read_before and observation.get("notified"):
                    self._reports.capture.book.report(observation["task"], _NOTIFICATIONS_MISSED, CLOCK.now())
        self._left = []

    def _read(self, left: list[LeftObservation]) -> list[tuple[LeftObservation, Observation]]:
        """The observations, with `unread` in the place of those that cannot be read and whose task is known."""
        read: dict[int, Observation] = {}
        for one in left:
            try:
                read[one.number] = decoded(one.content.encode())
            except ValueError as error:  # of another version, or damaged
                logger.error("observation %d in the store cannot be read: %s", one.number, error)
        if len(read) < len(left):
            under_way = (observation["task"] for observation in read.values())
            task_ids = [*self._reports.capture.book.task_ids, *self._under_way.values(), *under_way]
            known = {self._key(task_id): task_id for task_id in task_ids}
            for one in left:
                if one.number not in read and one.task in known:
                    read[one.number] = unread(known[one.task], one.at)
        return [(one, read[one.number]) for one in left if one.number in read]

    async def _forget(self) -> None:
        """Delete what the turns show that are stored."""
        open_turns = self._reports.capture.book.open_turns
        needed = {self._key(turn.task_id) for turn in open_turns if turn.task_id}
        needed.update(key for key, *_ in self._unsent)
        shown = {key: self._folded.pop(key) for key in self._folded.keys() - needed}
        try:
            await self._reports.written()
            await self._table.done(self.proxy, shown)
        except StoreError as error:
            logger.debug("observations could not be deleted: %r", error)
            self._trouble.seen()
            self._folded = {**shown, **self._folded}

    def _end_gone(self, now: float) -> None:
        """End the exchanges of proxies that are no more. Any of them may have been sent notifications."""
        self._dead_since = {proxy: self._dead_since.get(proxy, now) for proxy in self._dead}
        gone = {proxy for proxy, since in self._dead_since.items() if now - since > _LATE_S} - self._ended
        for one in [one for proxy in gone for one in self.cut_off(f"{proxy} ", now)]:
            super().put(now, one)
        for task_id, at in self._notified.items() if gone else ():
            if at > now - 2 * _LEASE_S:
                self._reports.capture.book.report(task_id, _NOTIFICATIONS_MISSED, CLOCK.now())
        self._ended = (self._ended | gone) & self._dead

    async def _sweep(self, now: float) -> None:
        """Take over the tasks of proxies that are no more, and release tasks of which nothing is known."""
        await self._table.take_over(self.proxy, self._agent.name)
        self._end_gone(now)
        if self._folded and (self._forgetting is None or self._forgetting.done()):
            self._forgetting = asyncio.create_task(self._forget())
        if now - self._released_at < _RELEASE_AFTER_S:
            return
        self._released_at = now
        known = {self._key(task_id) for task_id in self._reports.capture.book.task_ids}
        old = [
            key
            for key, task in self._tasks.items()
            if task.waiting is None and now - task.used_at > _RELEASE_AFTER_S and key not in known
        ]
        for key in old:
            del self._tasks[key]
        await self._table.release(old, self.proxy)

    def _unowned(self) -> list[str]:
        return [key for key, task in self._tasks.items() if task.waiting is not None]

    def _own(self, key: str, owner: str) -> None:
        """The owner of a task is known: pass on what was observed meanwhile."""
        task = self._tasks.get(key)
        if task is None or task.waiting is None:
            return
        task.owner, waiting, task.waiting = owner, task.waiting, None
        for at, observation in waiting:
            self._pass_on(key, task, at, observation)


def _now() -> float:
    return CLOCK.steady(CLOCK.now())
