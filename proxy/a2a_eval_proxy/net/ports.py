"""The ports on which a process listens: a server that ends unexpectedly is started again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Protocol, TypeVar

from ..errors import ListenError

logger = logging.getLogger(__name__)

_PAUSE_S = 0.1
_MAX_PAUSE_S = 1.0
"""Before a start. A server that ran for no longer, or that does not start, waits twice as long the next time."""


class Server(Protocol):
    """What listens on one port."""

    @property
    def address(self) -> str:
        """HOST:PORT of the listening socket, after `start`."""

    async def start(self) -> asyncio.Task[None]:
        """Accept connections; also again, at the same address, after an unexpected end.

        Returns a task that runs until the server ends; it raises what ended it, unless that was `stop`. Raises
        ListenError.
        """

    async def stop(self) -> None:
        """Accept no more connections; open requests may finish."""


_Server = TypeVar("_Server", bound=Server)


class Ports:
    """The servers of one process."""

    def __init__(self, stack: AsyncExitStack) -> None:
        """`stack` stops the servers."""
        self.stack = stack
        self._down: set[str] = set()
        self._watches: list[asyncio.Task[None]] = []

    def problems(self) -> list[str]:
        """Which ports are down; [] when all servers run."""
        return [f"nothing listens on {name}; the log says why" for name in sorted(self._down)]

    async def open(self, new_server: Callable[[], _Server], setting: str) -> _Server:
        """Start a server, and start it again whenever it ends unexpectedly.

        `setting` chooses its address. Raises ListenError.
        """
        try:
            server = new_server()
            self.stack.push_async_callback(server.stop)
            serving = await server.start()
        except ListenError as error:
            raise ListenError(error.errno, f"{error.strerror}; choose another address with {setting}") from error
        name = f"{server.address} ({setting.partition(' ')[0]})"
        self._watches.append(asyncio.get_running_loop().create_task(self._watch(server, name, serving)))
        self.stack.callback(self.give_up)
        return server

    def give_up(self) -> None:
        """Start no server again: the process stops."""
        for watch in self._watches:
            watch.cancel()

    async def _watch(self, server: Server, name: str, serving: asyncio.Task[None]) -> None:
        loop, pause_s = asyncio.get_running_loop(), _PAUSE_S
        while True:
            began = loop.time()
            await asyncio.wait({serving})
            if serving.cancelled() or serving.exception() is None:
                return
            logger.error("%s: the server ended unexpectedly and is started again: %r", name, serving.exception())
            self._down.add(name)
            if loop.time() - began > _MAX_PAUSE_S:
                pause_s = _PAUSE_S
            problem = ""
            while serving.done():
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _MAX_PAUSE_S)
                try:
                    serving = await server.start()
                except Exception as error:  # noqa: BLE001  # whatever it is, the next attempt follows
                    if (again := repr(error)) != problem:
                        problem = again
                        logger.error("%s: the server does not start: %s", name, problem)
            self._down.discard(name)
            logger.warning("%s: the server runs again", name)
