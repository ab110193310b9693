"""A PostgreSQL database for callers on any thread and event loop: its connections live on one loop of their own."""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from ...settings.store_url import masked_url
from ...threads import MOST_WAITING
from ..base import StoreUnreachableError

T = TypeVar("T")

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
"""Commits each statement on its own, unless it is in a transaction."""

Work = Callable[[Connection], Awaitable[T]]

CONNECT_TIMEOUT_S = 10
WORK_TIMEOUT_S = 60
_CONNECTIONS = 4

TROUBLE = (psycopg.Error, OSError, TimeoutError, UnicodeEncodeError)  # what may come of work on a database
_REFUSED = ("22", "23", "54")
"""Classes of SQLSTATE: data exception, integrity constraint violation, program limit exceeded."""

_PASSING = ("08", "25", "53", "57", "58")
"""Connection exception, invalid transaction state (read-only), insufficient resources, operator intervention, system
error."""

_CLOSE_S = 2.0


@lru_cache(maxsize=500)
def named(statement: str) -> bytes:
    """A statement with parameters `:name`, as those of SQLite, in the form of the driver."""
    return re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", statement.replace("%", "%%")).encode()


@lru_cache(maxsize=500)
def positional(statement: str) -> bytes:
    """A statement whose values stand at `?`, in the form of the driver."""
    return statement.replace("%", "%%").replace("?", "%s").encode()


def changing(statement: bytes, values: Mapping[str, Any]) -> Work[int]:
    """How many rows a statement changes. In a transaction: where its caller gives it up, nothing is changed."""

    async def change(connection: Connection) -> int:
        async with connection.transaction():
            return (await connection.execute(statement, values)).rowcount

    return change


class Database:
    """Connects when it is first used, and again when a connection was lost.

    What is awaited raises StoreUnreachableError where the database is away or refuses.
    """

    def __init__(self, url: str) -> None:
        self.name = masked_url(url)
        self._url = url
        self._places = threading.BoundedSemaphore(MOST_WAITING)
        self._free = asyncio.Semaphore(_CONNECTIONS)
        self._idle: list[Connection] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="store-database", daemon=True)
        self._thread.start()

    def submit(self, work: Work[T]) -> Future[T]:
        """Do `work`, which begins a transaction where it needs one. The future has its result, or one of `TROUBLE`."""

        async def done() -> T:
            async with asyncio.timeout(WORK_TIMEOUT_S):
                await self._free.acquire()
            try:
                async with self._connection() as connection:
                    return await work(connection)
            finally:
                self._free.release()

        return asyncio.run_coroutine_threadsafe(done(), self._loop)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        """A connection that no other work uses, for `WORK_TIMEOUT_S`."""
        while self._idle and not _stands(self._idle[-1]):
            await self._idle.pop().close()
        connection = self._idle.pop() if self._idle else await self._connect()
        cutting = self._loop.call_later(WORK_TIMEOUT_S, _cut, connection)
        try:
            yield connection
        except psycopg.OperationalError as error:
            if self._loop.time() < cutting.when():
                raise
            raise TimeoutError(f"no answer within {WORK_TIMEOUT_S} s") from error
        finally:
            cutting.cancel()
            self._idle.append(connection)

    async def _connect(self) -> Connection:
        return await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S, application_name="a2a-eval-proxy"
        )

    async def run(self, work: Work[T], done: str = "written") -> T:
        """The result of `work`; from any event loop. `done` says in errors what it does."""
        if not self._places.acquire(blocking=False):
            raise StoreUnreachableError(f"store {self.name}: {MOST_WAITING} operations wait for it already")
        try:
            return await asyncio.wrap_future(self.submit(work))
        except TROUBLE as error:
            raise StoreUnreachableError(f"store {self.name} cannot be {done}: {reason(error)}") from error
        finally:
            self._places.release()

    async def rows(self, statement: bytes, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows that a statement returns."""

        async def select(connection: Connection) -> list[tuple[Any, ...]]:
            return await (await connection.execute(statement, values)).fetchall()

        return await self.run(select, "read")

    async def change(self, statement: bytes, values: Mapping[str, Any]) -> int:
        """How many rows a statement changes."""
        return await self.run(changing(statement, values))

    def close(self) -> None:
        """Close its connections; blocks until that is done, or 2 seconds for a server that does not answer."""
        closing = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        with suppress(TimeoutError, *TROUBLE):
            closing.result(_CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        if not self._loop.is_running():
            self._loop.close()

    async def _end(self) -> None:
        left = [task for task in asyncio.all_tasks() if task.cancelling()]
        if left:
            await asyncio.wait(left, timeout=_CLOSE_S / 2)
        for connection in self._idle:
            await connection.close()


def _stands(connection: Connection) -> bool:
    """Whether the server has not closed an idle connection: it sends nothing else unasked."""
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def _cut(connection: Connection) -> None:
    """Have whoever waits for the server get an error."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)


def reason(error: BaseException) -> str:
    """What went wrong, in one line, in the words of the driver."""
    text = " ".join(str(error).split("\n")[0].split())
    return text or type(error).__name__


def refused(error: BaseException) -> bool:
    """Whether the database will never take what it was given: a value, or one of its limits, and not a bad day."""
    state = getattr(error, "sqlstate", None) or ""
    return isinstance(error, psycopg.DataError | UnicodeEncodeError) or state[:2] in _REFUSED


def passes(error: BaseException) -> bool:
    """Whether the same work may do later: the database is read-only or full, is shut down, or has a bad day."""
    return (getattr(error, "sqlstate", None) or "")[:2] in _PASSING
