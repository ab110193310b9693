"""A PostgreSQL database for callers on any thread and event loop: its connections live on one loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import asyncpg
from sqlalchemy import Executable
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from ...bounded_threads import MOST_WAITING
from ...settings.store_url import masked_url
from ..base import StoreUnreachableError

T = TypeVar("T")

Work = Callable[[AsyncConnection], Awaitable[T]]

CONNECT_TIMEOUT_S = 10
_COMMAND_TIMEOUT_S = 60
_CONNECTIONS = 4

TROUBLE = (SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError)
"""What may come of work on a database."""

_REFUSED = ("22", "23", "54")
"""Classes of SQLSTATE: data exception, integrity constraint violation, program limit exceeded."""


_PASSING = ("08", "25", "53", "57", "58")
"""Connection exception, invalid transaction state (read-only), insufficient resources, operator intervention, system
error."""

_CLOSE_S = 2.0


class Database:
    """Connects when it is first used, and again when a connection was lost.

    What is awaited raises StoreUnreachableError where the database is away or refuses.
    """

    def __init__(self, url: str) -> None:
        self.name = masked_url(url)
        self._places = threading.BoundedSemaphore(MOST_WAITING)

        async def connect() -> asyncpg.Connection[Any]:
            return await asyncpg.connect(
                url,
                timeout=CONNECT_TIMEOUT_S,
                command_timeout=_COMMAND_TIMEOUT_S,
                server_settings={"application_name": "a2a-eval-proxy"},
            )

        self._engine = create_async_engine(  # asyncpg reads the URL itself: it knows libpq's parameters
            "postgresql+asyncpg://",
            async_creator=connect,
            pool_size=_CONNECTIONS,
            max_overflow=0,
            pool_pre_ping=True,
            pool_timeout=_COMMAND_TIMEOUT_S,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="store-database", daemon=True)
        self._thread.start()

    def submit(self, work: Work[T], *, autocommit: bool = False) -> Future[T]:
        """Do `work` in a transaction of its own, or without one. The future has its result, or one of `TROUBLE`."""
        engine = self._engine.execution_options(isolation_level="AUTOCOMMIT") if autocommit else self._engine

        async def transaction() -> T:
            async with engine.begin() as connection:
                return await work(connection)

        return asyncio.run_coroutine_threadsafe(transaction(), self._loop)

    async def run(self, work: Work[T], done: str = "written") -> T:
        """The result of `work` in a transaction of its own; from any event loop. `done` says in errors what it does."""
        if not self._places.acquire(blocking=False):
            raise StoreUnreachableError(f"store {self.name}: {MOST_WAITING} operations wait for it already")
        try:
            return await asyncio.wrap_future(self.submit(work))
        except TROUBLE as error:
            raise StoreUnreachableError(f"store {self.name} cannot be {done}: {reason(error)}") from error
        finally:
            self._places.release()

    async def rows(self, statement: Executable, values: dict[str, Any]) -> Sequence[Any]:
        """The rows that a statement returns."""

        async def select(connection: AsyncConnection) -> Sequence[Any]:
            return (await connection.execute(statement, values)).all()

        return await self.run(select, "read")

    async def change(self, statement: Executable, values: dict[str, Any]) -> int:
        """Run a statement; returns the number of changed rows."""

        async def change(connection: AsyncConnection) -> int:
            return (await connection.execute(statement, values)).rowcount

        return await self.run(change)

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
        """Let work end that was cancelled, and close the connections."""
        left = [task for task in asyncio.all_tasks() if task.cancelling()]
        if left:
            await asyncio.wait(left, timeout=_CLOSE_S / 2)
        await self._engine.dispose()


def reason(error: BaseException) -> str:
    """What went wrong, in one line, in the words of the driver."""
    cause = _cause(error)
    text = " ".join(str(cause).split("\n")[0].split())
    return text or type(cause).__name__


def refused(error: BaseException) -> bool:
    """Whether the database will never take what it was given: a value, or one of its limits, and not a bad day."""
    cause = _cause(error)
    state = getattr(cause, "sqlstate", None) or ""
    return isinstance(cause, asyncpg.DataError) or state[:2] in _REFUSED


def passes(error: BaseException) -> bool:
    """Whether the same work may do later: the database is read-only or full, is shut down, or has a bad day."""
    return (getattr(_cause(error), "sqlstate", None) or "")[:2] in _PASSING


def _cause(error: BaseException) -> BaseException:
    """The driver's own error: SQLAlchemy wraps it, for asyncpg twice."""
    original = getattr(error, "orig", None) or error
    return original.__cause__ or original
