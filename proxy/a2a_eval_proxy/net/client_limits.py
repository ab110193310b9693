"""Limits on the time and number of clients; violations are counted, and logged once a minute."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..telemetry.problem_log import ProblemLog

logger = logging.getLogger(__name__)

_READ_AT_ONCE = 256 * 1024
"""Bytes that an event loop reads from a socket at a time: part of a body may arrive with a header."""

_KEPT_FILES = 64
"""Open files reserved for the store, the admin port and the log."""

_FILES_PER_CLIENT = 2
"""Its own connection, and one to the agent."""

_LINES = {
    "bad_request": "{count} request(s) of clients were not valid HTTP and refused",
    "internal_error": "{count} request(s) met a fault of the proxy: they got a 500, or their response was cut",
    "header_too_large": "{count} request(s) of clients had a header or trailer beyond max_header_bytes",
    "header_timeout": "{count} client connection(s) sent no whole header within client_header_timeout and were closed",
    "body_timeout": "{count} client(s) stopped inside a request for client_body_timeout and were cut off",
    "send_timeout": "{count} client(s) read nothing of a response for client_send_timeout and were cut off",
    "close_ignored": "{count} client(s) kept sending after the last response and were disconnected",
    "too_many_connections": "{count} client connection(s) beyond the limit were answered with 503",
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
    """Concurrent connections; None: no limit."""
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


@dataclass
class Clients:
    """The client connections of one listening port."""

    limits: ClientLimits
    connections: set[Any] = field(default_factory=set)
    """Those that are open, but for those beyond the limit."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """One for each request that is being answered."""
    turned_away: int = 0
    """Connections beyond the limit that are still open."""
    retiring: bool = False
    """Whether each connection ends with its next response."""

    def is_full(self) -> bool:
        """Whether there are more connections than the limit allows."""
        most = self.limits.max_connections
        return most is not None and len(self.connections) > most


def connections_possible(wanted: int) -> int:
    """`wanted`, or the lower number of client connections for which the process may open the files.

    Without this limit the admin port could not open its connections either. Raises the soft limit on open files as far
    as needed, at most to the hard limit.
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
