"""A server of raw connections in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class RawServer:
    """Context manager: `talk` has each connection. Leaving it drops those that are open."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ends with the connection; connections that the peer breaks are no error."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20, backlog=128))
        self.authority = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.url = f"http://{self.authority}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def _call(self, what: Awaitable[T]) -> T:
        async def run() -> T:
            return await what

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(30)

    async def _end(self) -> None:
        self._server.close()
        for _ in range(10):  # connections accepted a moment ago become tasks, ended tasks close their sockets
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)  # with reading paused, nobody else holds it
        task.add_done_callback(self._tasks.discard)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):  # the peer has gone
                await self.talk(reader, writer)
            writer.close()
        except asyncio.CancelledError:
            writer.transport.abort()
