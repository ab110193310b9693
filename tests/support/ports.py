"""Ports for those who must know them before a server listens, and for those on which none ever does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """That number of different ports of loopback, which no other process gets for the time of the block.

    A socket is bound to each and does not listen: connections are refused, the kernel does not choose the port,
    neither to listen nor to connect from, and a server that names it, with SO_REUSEADDR as usual, gets it.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", 0))
        yield [one.getsockname()[1] for one in sockets]
