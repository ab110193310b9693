"""Forwards received requests, unchanged, to an OpenTelemetry collector."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import httpx
from a2a_tool_capture import __version__

from ..memory import share
from ..telemetry.counters import ForwardCounts
from ..telemetry.problem_log import ProblemLog

logger = logging.getLogger(__name__)

_RETRIED = frozenset({429, 502, 503, 504})  # OTLP specification, "Retryable Response Codes"; no other status is retried
LONGEST_TRIED_S = 900.0
_RESPONSE_TIMEOUT_S = 10.0
_ENDED = "it could not be sent before the end"


class _Export(NamedTuple):
    path: str
    headers: Mapping[bytes, bytes]
    body: bytes
    offered_at: float  # on the clock of the loop


class OtlpForwarder:
    """Sends requests to a collector, one after the other, from a bounded queue.

    `offer` returns at once. If the collector is too slow, or unreachable for too long, the oldest requests are dropped.
    Call all methods on one event loop.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        queue_bytes: int = share(16),
        retry_s: float = 5.0,
        counts: ForwardCounts | None = None,
    ) -> None:
        """`url` is the OTLP/HTTP endpoint of the collector (`http://collector:4318`), with or without a path.

        Every request carries `headers`, such as credentials. `queue_bytes` limits the size of waiting bodies.
        `retry_s`: how long after a failure a request is sent again. `counts` are the counters to increment.
        """
        base = httpx.URL(url)
        self._base = base.copy_with(path=base.path.rstrip("/").removesuffix("/v1/traces") or "/")
        self._shown = str(self._base.copy_with(userinfo=b"")).rstrip("/")
        named = {"user-agent": f"a2a-eval-proxy/{__version__}", **(headers or {})}
        sent = {name.encode("latin-1"): value.encode("latin-1") for name, value in named.items()}
        self._http = httpx.AsyncClient(headers=sent, timeout=_RESPONSE_TIMEOUT_S, trust_env=False)
        self._queue_bytes = queue_bytes
        self._retry_s = retry_s
        self._queue: deque[_Export] = deque()
        self._closing = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self._lost = ProblemLog(logger, "{url}: {count} request(s) with telemetry lost, last: {why}", logging.WARNING)
        self._failed = ProblemLog(
            logger, "{url}: {count} request(s) with telemetry failed and are sent again, last: {why}", logging.WARNING
        )
        self.counts = ForwardCounts() if counts is None else counts

    def offer(self, path: str, content_type: str, content_encoding: str, body: bytes) -> None:
        """Queue a request for `path` (`/v1/traces`), to be sent with these headers (left out where "")."""
        named = {b"content-type": content_type, b"content-encoding": content_encoding}
        headers = {name: value.encode("latin-1") for name, value in named.items() if value}
        self._queue.append(_Export(path, headers, body, asyncio.get_running_loop().time()))
        self.counts.held_bytes += len(body)
        while self.counts.held_bytes > self._queue_bytes and self._queue:
            self._done(self._queue.popleft(), f"more than {self._queue_bytes} bytes wait; the oldest are dropped")
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def close(self, timeout_s: float) -> None:
        """Send what is left, for at most `timeout_s`; drop the rest."""
        self._closing.set()
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=timeout_s)
            self._sending.cancel()
            await asyncio.wait({self._sending})
        while self._queue:
            self._done(self._queue.popleft(), _ENDED)
        self._lost.close()
        await self._http.aclose()

    # ── the sender ──────────────────────────────────────────────────────────────────────────────────────

    async def _send_all(self) -> None:
        while self._queue:
            export, lost = self._queue.popleft(), _ENDED
            try:
                lost = await self._deliver(export)
            finally:
                self._done(export, lost)

    async def _deliver(self, export: _Export) -> str:
        """Send one request, with retries if the failure is temporary. Why the collector does not have it; "" where it
        has."""
        url = self._base.copy_with(path=self._base.path.rstrip("/") + export.path)
        while True:
            try:
                response = await self._http.post(url, content=export.body, headers=export.headers)
            except httpx.HTTPError as error:
                problem = str(error) or type(error).__name__
            else:
                if response.is_success:
                    return ""
                problem = f"status {response.status_code} at {export.path}"
                if response.status_code not in _RETRIED:
                    return problem
            if self._closing.is_set() or asyncio.get_running_loop().time() - export.offered_at > LONGEST_TRIED_S:
                return problem
            self._failed.seen(url=self._shown, why=problem)
            self.counts.outcomes["retried"] += 1
            with suppress(TimeoutError):  # the usual end of the wait
                await asyncio.wait_for(self._closing.wait(), self._retry_s)

    def _done(self, export: _Export, lost: str) -> None:
        self.counts.held_bytes -= len(export.body)
        self.counts.outcomes["dropped" if lost else "sent"] += 1
        if lost:
            self._lost.seen(url=self._shown, why=lost)
