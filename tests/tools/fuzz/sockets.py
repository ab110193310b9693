"""Raw sockets on the event loop: nothing is read before it is asked for, so back-pressure is real."""

from __future__ import annotations

import asyncio
import socket
import struct

PIECE = 65_536
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Line:
    """One TCP connection. `idle_s` is how long nothing has moved in either direction."""

    def __init__(self, connection: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = connection
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._moved = self._loop.time()

    @classmethod
    async def connect(cls, port: int, *, receive_buffer: int | None = None) -> Line:
        connection = socket.socket()
        connection.setblocking(False)
        if receive_buffer is not None:  # before connecting: it decides the window
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        except BaseException:
            connection.close()
            raise
        return cls(connection)

    @property
    def idle_s(self) -> float:
        return self._loop.time() - self._moved

    async def send(self, data: bytes) -> None:
        """All of `data`. Raises OSError where the other side is gone."""
        for start in range(0, len(data), PIECE):
            await self._loop.sock_sendall(self._socket, data[start : start + PIECE])
            self._moved = self._loop.time()

    async def receive(self, size: int = PIECE) -> bytes:
        """What has come, at least a byte; b"" at the end. Raises OSError."""
        data = await self._loop.sock_recv(self._socket, size)
        self._moved = self._loop.time()
        return data

    def half_close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it is gone

    def close(self, *, reset: bool = False) -> None:
        """May be called twice, and while a task receives: what is cancelled later must not concern its successor."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._socket.close()


async def has_looked(port: int) -> None:
    """Returns when the proxy at `port` has seen all that reached it before the call, however busy it is.

    It has one event loop: an answer to a new connection means that it asked the system what had come meanwhile.
    TRACE is refused without asking the agent. Raises OSError where the proxy has ended.
    """
    line = await Line.connect(port)
    try:
        await line.send(b"TRACE / HTTP/1.1\r\nhost: proxy.test\r\nconnection: close\r\n\r\n")
        while await line.receive():
            pass
    finally:
        line.close()
