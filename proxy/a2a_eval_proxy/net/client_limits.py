"""Limits on the time, number and memory of clients; violations are counted, and logged once a minute."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..body_memory import BodyMemory
from ..memory import share
from ..telemetry.problem_log import ProblemLog

logger = logging.getLogger(__name__)

_READ_AT_ONCE = 256 * 1024
"""Bytes that an event loop reads from a socket at a time: part of a body may arrive with a header."""

_KEPT_FILES = 128
"""Open files for the store, the log, and the connections that other ports than those for clients have of their own."""

_OWN_CONNECTIONS = 16
"""Connections that a port which is not for clients has of its own, besides those it has in common with others."""

FREE_BYTES = 4 * 1024
"""Of what a connection holds, so much does not count: their number bounds it."""

GRACE_S = 5.0
"""How long a client may do nothing while others wait for a connection or for memory."""

TAKEN_WITHIN_S = 0.4
"""How long a client may take nothing of a response that is ready while others wait for the memory of bodies."""

_FILES_PER_CLIENT = 2
"""Its own connection, and one to the agent."""

_LINES = {
    "bad_request": "{count} request(s) of clients were not valid HTTP and refused",
    "internal_error": "{count} request(s) met a fault of the proxy: they got a 500, or their response was cut",
    "header_too_large": "{count} request(s) of clients had a header or trailer beyond limits.header_bytes",
    "header_timeout": "{count} client connection(s) sent no whole header within timeouts.client_header and were closed",
    "body_timeout": "{count} client(s) stopped inside a request for timeouts.client_body and were cut off",
    "send_timeout": "{count} client(s) read nothing of a response for timeouts.client_send and were cut off",
    "close_ignored": "{count} client(s) kept sending after the last response and were disconnected",
    "too_many_connections": "{count} client connection(s) beyond the limit were answered with 503",
    "no_memory": "{count} unfinished request(s) of clients were refused: others take the memory for them",
}


@dataclass
class ClientLimits:
    """Limits of the connections of one listening port, in seconds, bytes and connections."""

    header_timeout_s: float = 60.0
    """For the header of a request, from its first byte; for the first one, from the connection."""
    body_timeout_s: float = 60.0
    """Between two pieces of a body, while the proxy is ready to read."""
    send_timeout_s: float = 60.0
    """Without progress while a response waits for the client to read."""
    max_header_bytes: int = 65_536
    max_connections: int | None = None
    """Concurrent requests over HTTP/2; None: no limit."""
    keep_alive_s: float = 75.0
    """Between a response and the next request of its connection."""
    broken_limits: Counter[str] = field(default_factory=Counter)
    """Number of violations of each limit, by the keys of `_LINES`."""

    def __post_init__(self) -> None:
        self.max_unread_bytes = 2 * self.max_header_bytes + _READ_AT_ONCE
        """Maximum number of bytes that complete no header section and carry no body.

        The application refuses headers that exceed `max_header_bytes` by less.
        """
        self._logs = {problem: ProblemLog(logger, text, logging.WARNING) for problem, text in _LINES.items()}

    def broken(self, problem: str) -> None:
        """Count a violation of a limit, or of the protocol."""
        self.broken_limits[problem] += 1
        self._logs[problem].seen()

    def close(self) -> None:
        """Log the violations that were counted and not logged yet."""
        for log in self._logs.values():
            log.close()


def operator_limits() -> ClientLimits:
    """Of a port whose clients are the operator's own: browsers, scrapers, exporters of traces."""
    return ClientLimits(header_timeout_s=10.0, body_timeout_s=30.0, send_timeout_s=30.0, keep_alive_s=60.0)


class Capacity:
    """What the clients of all ports of a process have together: connections, and memory for what they have begun.

    A port cannot take the connections that are reserved for another. What a connection holds counts from its first
    byte until someone has taken it: the beginning of a header, bytes of a body, further requests.
    """

    def __init__(
        self, connections: int | None = None, held_bytes: int = share(16), bodies: BodyMemory | None = None
    ) -> None:
        """`connections`: those that all ports have in common; None: no limit. `bodies`: what answers take that are not
        read."""
        self._connections = connections
        self._own = 0
        self._held_bytes = held_bytes
        self._held = 0
        self._ports: list[Clients] = []
        self._turned_away_at = self._out_of_memory_at = float("-inf")
        self._bodies = bodies
        self.leaving: set[Any] = set()
        """Connections beyond the limit that are being closed."""

    def port(self, limits: ClientLimits, reserved_part: int | None = None) -> Clients:
        """The clients of one more port. `reserved_part`: its part of the common connections, a half (2) or less; None:
        it has a few of its own."""
        common = self._connections or 0
        clients = Clients(limits, self, _OWN_CONNECTIONS if reserved_part is None else common // reserved_part)
        if reserved_part is None:
            self._own += _OWN_CONNECTIONS
        self._ports.append(clients)
        return clients

    def admits(self, clients: Clients, now: float) -> bool:
        """Whether a port may keep the connection that it has just got."""
        if self._connections is None or len(clients.connections) <= clients.reserved:
            return True
        others = sum(max(len(one.connections), one.reserved) for one in self._ports if one is not clients)
        if len(clients.connections) + others <= self._connections + self._own:
            return True
        self._turned_away_at = now
        return False

    def hold(self, held: int, size: int, now: float) -> bool:
        """Whether a connection that held `held` bytes may have `size`. It always may have less than before."""
        held, size = max(0, held - FREE_BYTES), max(0, size - FREE_BYTES)
        if size > held and self._held + size - held > self._held_bytes:
            self._out_of_memory_at = now
            return False
        self._held += size - held
        return True

    @property
    def bodies_wait(self) -> bool:
        """Whether someone waits for the memory of bodies."""
        return self._bodies is not None and bool(self._bodies.waiting)

    def patience(self, limit_s: float, now: float) -> float:
        """How long a client may send nothing of a request: `limit_s`, or less where others wait."""
        if now - self._out_of_memory_at < GRACE_S or self.bodies_wait:
            return min(limit_s, GRACE_S)
        return self.idle_s(limit_s, now)

    def taking_s(self, limit_s: float, now: float) -> float:
        """How long a client may take nothing of a response: `limit_s`, or less where others wait."""
        return min(limit_s, TAKEN_WITHIN_S) if self.bodies_wait else self.patience(limit_s, now)

    def idle_s(self, limit_s: float, now: float) -> float:
        """How long a connection may have no request: `limit_s`, or less where others wait for a connection."""
        return min(limit_s, GRACE_S) if now - self._turned_away_at < GRACE_S else limit_s


@dataclass
class Clients:
    """The client connections of one listening port."""

    limits: ClientLimits
    capacity: Capacity
    reserved: int
    """Connections that other ports cannot take."""
    connections: set[Any] = field(default_factory=set)
    """Those that are open, but for those beyond the limit."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """One for each request that is being answered."""
    retiring: bool = False
    """Whether each connection ends with its next response."""


def connections_possible(wanted: int) -> int:
    """`wanted`, or the lower number of client connections for which the process may open the files.

    Raises the soft limit on open files as far as needed, at most to the hard limit.
    """
    if sys.platform == "win32":
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted * _FILES_PER_CLIENT + _KEPT_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    possible = max(1, (soft - _KEPT_FILES) // _FILES_PER_CLIENT)
    if possible < wanted // 2:
        logger.warning("at most %d client connections: this process may open %d files (ulimit -n)", possible, soft)
    return possible
