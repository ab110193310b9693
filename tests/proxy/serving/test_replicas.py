"""Several proxies on one real PostgreSQL: what one observes is in its turn, whichever of them dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
from a2a_eval_proxy.capture.forwarding import ForwardingBook
from a2a_eval_proxy.capture.turn_book import TurnBook
from a2a_eval_proxy.clock import CLOCK
from a2a_eval_proxy.serving import replicas
from a2a_eval_proxy.serving.replicas import Replicas
from a2a_eval_proxy.settings import Settings
from a2a_eval_proxy.settings.settings import Agent
from a2a_eval_proxy.store import Store, StoreError, open_store
from a2a_eval_proxy.store.shared_tasks import SharedTasks, task_key
from a2a_eval_proxy.turn import Turn
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer

WORKING = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
AGENT = Agent("", Settings(upstream="http://agent"))
DONE = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}


@pytest.fixture
async def store(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    monkeypatch.setattr(replicas, "_LEASE_S", 2.0)
    monkeypatch.setattr(replicas, "_LATE_S", 0.2)
    monkeypatch.setattr(replicas, "_SWEEP_EVERY_S", 0.1)
    with closing(open_store(postgres.new_store())) as opened:
        yield opened


class Proxy:
    """The capture of a proxy, without its ports; as its reports, which keep closed turns in memory."""

    def __init__(self, store: Store) -> None:
        self.closed: list[Turn] = []
        self.book = TurnBook(self.closed.append)
        self.capture = self
        self.replicas = Replicas(store.shared_tasks, self, AGENT)  # type: ignore[arg-type]  # the part that it needs
        self.sees = ForwardingBook(TurnBook(self.closed.append), self.replicas.observed, self.replicas.proxy)

    async def started(self) -> Proxy:
        await self.replicas.start()
        self._running = asyncio.create_task(self.replicas.run(lambda: None))
        return self

    def lost(self, turn_id: str) -> None: ...

    def process_ended(self, turn_ids: set[str], now: float) -> None: ...

    @property
    def open_turns(self) -> list[Turn]:
        return self.book.open_turns

    async def written(self) -> None: ...

    async def killed(self) -> None:
        tasks = [task for task in (self._running, self.replicas._forgetting) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def sends(self, turn_id: str) -> Any:
        """A message that the agent answers with a task at work: the exchange ends."""
        now = CLOCK.now()
        exchange = self.sees.open(Turn(turn_id, "run", "agent", "JSONRPC", "1.0", now), now, returns_at_once=True)
        self.sees.feed(exchange, WORKING, now, live=False, size=100)
        self.sees.end(exchange, now)

    def polls(self, answer: dict[str, Any]) -> None:
        now, watcher = CLOCK.now(), self.sees.watch()
        self.sees.feed(watcher, answer, now, live=False, size=100)
        self.sees.end(watcher, now)


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


async def owner_and_other(store: Store) -> tuple[Proxy, Proxy]:
    """Two proxies; the first owns the task."""
    owner, other = await Proxy(store).started(), await Proxy(store).started()
    owner.polls(WORKING)
    await until(lambda: owner.replicas._tasks and not owner.replicas._unowned())
    return owner, other


async def test_the_turn_of_a_living_proxy_outlives_the_owner_of_its_task(store: Store) -> None:
    owner, other = await owner_and_other(store)
    other.sends("turn")
    await until(lambda: owner.book.open_turns)
    await owner.killed()
    await until(lambda: other.book.open_turns)
    other.polls(DONE)
    other.book.expire(CLOCK.now() + 10)
    await until(lambda: other.closed)
    await other.killed()
    assert [(turn.turn_id, turn.state) for turn in other.closed] == [("turn", "TASK_STATE_COMPLETED")]


async def test_what_was_received_outlives_a_store_that_goes_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, failures = SharedTasks.stored, iter([True])

    async def fails_once(table: SharedTasks, turn_ids: Any) -> set[str]:
        if next(failures, False):
            raise StoreError("away")
        return await stored(table, turn_ids)

    monkeypatch.setattr(SharedTasks, "stored", fails_once)
    owner, other = await owner_and_other(store)
    other.sends("turn")
    await until(lambda: owner.book.open_turns)
    await owner.killed()
    await until(lambda: other.book.open_turns)
    await other.killed()
    assert next(failures, False) is False


async def test_a_third_proxy_takes_over_what_two_left(store: Store) -> None:
    owner, other = await owner_and_other(store)
    await owner.killed()
    other.sends("turn")
    await until(lambda: not other.replicas._unowned() and not other.replicas._unsent)
    await other.killed()
    third = await Proxy(store).started()
    await until(lambda: third.book.open_turns)
    await third.killed()


async def test_the_exchanges_of_a_killed_proxy_end(store: Store) -> None:
    owner, other = await owner_and_other(store)
    now = CLOCK.now()
    exchange = other.sees.open(Turn("turn", "run", "agent", "JSONRPC", "1.0", now, task_id="t"), now)
    other.sees.feed(exchange, WORKING, now, live=True, size=100)
    await until(lambda: owner.book.open_turns)
    await other.killed()
    await until(lambda: owner.book.open_turns[0].findings)
    await owner.killed()
    assert [finding.code for finding in owner.book.open_turns[0].findings] == ["process_ended"]


async def test_turns_with_a_webhook_say_that_a_killed_proxy_may_have_been_notified(store: Store) -> None:
    owner, other = await Proxy(store).started(), await Proxy(store).started()
    owner.sends("turn")
    await until(lambda: owner.book.open_turns)
    now, hook = CLOCK.now(), owner.sees.watch(notified="hook")
    owner.sees.feed(hook, WORKING, now, live=True, size=100)
    other.polls(WORKING)
    await until(lambda: owner.book.open_turns and not other.replicas._unowned())
    await other.killed()
    await until(lambda: owner.book.open_turns[0].findings)
    await owner.killed()
    assert [finding.code for finding in owner.book.open_turns[0].findings] == ["calls_missed"]


async def test_a_proxy_that_stops_in_order_leaves_nothing_to_report(store: Store) -> None:
    owner, other = await Proxy(store).started(), await Proxy(store).started()
    owner.sends("turn")
    await until(lambda: owner.book.open_turns)
    owner.sees.feed(owner.sees.watch(notified="hook"), WORKING, CLOCK.now(), live=True, size=100)
    other.polls(WORKING)
    await until(lambda: owner.book.open_turns and not other.replicas._unowned())
    await other.killed()
    await other.replicas.close()
    killed_later = await Proxy(store).started()
    await killed_later.killed()
    await until(lambda: owner.replicas._ended)
    await owner.killed()
    assert owner.replicas._ended == {killed_later.replicas.proxy}


async def test_what_turns_show_that_are_stored_is_deleted(store: Store) -> None:
    owner, other = await owner_and_other(store)
    other.sends("turn")
    other.polls(DONE)
    await until(lambda: owner.book.open_turns or owner.closed)
    async with asyncio.timeout(PATIENCE_S):
        while await store.shared_tasks._read("SELECT 1 FROM observations", {}, list):
            owner.book.expire(CLOCK.now() + 10)
            await asyncio.sleep(0.05)
    await owner.killed()
    await other.killed()
    assert [turn.turn_id for turn in owner.closed] == ["turn"]


async def test_an_observation_that_cannot_be_read_costs_itself(store: Store) -> None:
    owner, other = await owner_and_other(store)
    task = task_key(AGENT.key, "t")
    other.sends("turn")
    await until(lambda: owner.book.open_turns)
    await store.shared_tasks.send([(task, 0.0, junk, "") for junk in ("{", "[]", '{"kind": "event"}')])
    other.polls(DONE)
    await until(lambda: owner.book.answered or owner.closed)
    owner.book.expire(CLOCK.now() + 10)
    for proxy in (owner, other):
        await proxy.killed()
    assert [(turn.turn_id, turn.state) for turn in owner.closed] == [("turn", "TASK_STATE_COMPLETED")]
    assert [finding.code for finding in owner.closed[0].findings] == ["capture_error"]
