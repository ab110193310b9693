"""Forwards received requests, unchanged, to an OpenTelemetry collector."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from typing import NamedTuple

import httpx
from a2a_tool_capture import __version__
from tool_call_evaluators.judge.transport import asked_wait, backoff

from ..memory import share
from ..telemetry.counters import ForwardCounts

logger = logging.getLogger(__name__)

_RETRIED = frozenset({429, 502, 503, 504})  # OTLP specification, "Retryable Response Codes"; no other status is retried
_LONGEST_DELAY_S = 30.0
_LONGEST_RETRY_AFTER_S = 120.0
_LONGEST_TRIED_S = 900.0
_RESPONSE_TIMEOUT_S = 10.0
_FULL, _RETRYING = "full", "retrying"


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
        first_delay_s: float = 1.0,
        counts: ForwardCounts | None = None,
    ) -> None:
        """`url` is the OTLP/HTTP endpoint of the collector (`http://collector:4318`), with or without a path.

        Every request carries `headers`, such as credentials. `queue_bytes` limits the size of waiting bodies.
        `first_delay_s` is the delay before the first retry; it doubles each time, up to 30 s. `counts` are the counters
        to increment.
        """
        base = httpx.URL(url)
        self._base = base.copy_with(path=base.path.rstrip("/").removesuffix("/v1/traces") or "/")
        self._shown = str(self._base.copy_with(userinfo=b"")).rstrip("/")
        named = {"user-agent": f"a2a-eval-proxy/{__version__}", **(headers or {})}
        sent = {name.encode("latin-1"): value.encode("latin-1") for name, value in named.items()}
        self._http = httpx.AsyncClient(headers=sent, timeout=_RESPONSE_TIMEOUT_S, trust_env=False)
        self._queue_bytes = queue_bytes
        self._first_delay_s = first_delay_s
        self._queue: deque[_Export] = deque()
        self._closing = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self._complaints: set[str] = set()
        self.counts = ForwardCounts() if counts is None else counts

    def offer(self, path: str, content_type: str, content_encoding: str, body: bytes) -> None:
        """Queue a request for `path` (`/v1/traces`), to be sent with these headers (left out where "")."""
        named = {b"content-type": content_type, b"content-encoding": content_encoding}
        headers = {name: value.encode("latin-1") for name, value in named.items() if value}
        self._queue.append(_Export(path, headers, body, asyncio.get_running_loop().time()))
        self.counts.held_bytes += len(body)
        while self.counts.held_bytes > self._queue_bytes and self._queue:
            self._complain(_FULL, f"more than {self._queue_bytes} bytes are waiting; the oldest telemetry is dropped")
            self._done(self._queue.popleft(), sent=False)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def close(self, timeout_s: float) -> None:
        """Send what is left, for at most `timeout_s`; drop the rest."""
        self._closing.set()
        lost = 0
        if self._sending is not None:
            await asyncio.wait({self._sending}, timeout=timeout_s)
            lost -= self.counts.dropped
            self._sending.cancel()
            await asyncio.wait({self._sending})
            lost += self.counts.dropped
        if lost:
            logger.warning("%s: %d telemetry request(s) could not be sent and are lost", self._shown, lost)
        await self._http.aclose()

    # ── the sender ──────────────────────────────────────────────────────────────────────────────────────

    async def _send_all(self) -> None:
        """Send what waits; where this is cancelled, it is dropped."""
        try:
            while self._queue:
                export, sent = self._queue.popleft(), False
                try:
                    sent = await self._deliver(export)
                finally:
                    self._done(export, sent=sent)
        finally:
            while self._queue:
                self._done(self._queue.popleft(), sent=False)

    async def _deliver(self, export: _Export) -> bool:
        """Send one request, with retries if the failure is temporary. Whether the collector has it."""
        url = self._base.copy_with(path=self._base.path.rstrip("/") + export.path)
        for attempt in count():
            asked_s = None
            try:
                response = await self._http.post(url, content=export.body, headers=export.headers)
            except httpx.HTTPError as error:
                problem = str(error) or type(error).__name__
            else:
                if response.is_success:
                    return True
                problem = f"status {response.status_code} at {export.path}"
                if response.status_code not in _RETRIED:
                    self._complain(problem, f"{problem}; requests refused this way are dropped")
                    return False
                asked_s = asked_wait(response.headers, datetime.now(UTC))
            if asyncio.get_running_loop().time() - export.offered_at > _LONGEST_TRIED_S:
                break
            self._complain(_RETRYING, f"{problem}; telemetry is kept and sent again")
            self.counts.retried += 1
            await self._pause(retry_delay(attempt, self._first_delay_s, asked_s))
        return False

    async def _pause(self, delay_s: float) -> None:
        """Wait for the delay, or until `close`, so that the rest of the queue is tried again."""
        if self._closing.is_set():
            await asyncio.sleep(delay_s)
            return
        with suppress(TimeoutError):  # the usual end of a wait
            await asyncio.wait_for(self._closing.wait(), delay_s)

    def _done(self, export: _Export, *, sent: bool) -> None:
        self.counts.held_bytes -= len(export.body)
        self.counts.sent += sent
        self.counts.dropped += not sent
        if sent and self._complaints & {_FULL, _RETRYING}:
            self._complaints -= {_FULL, _RETRYING}
            logger.info("%s accepts telemetry again; %d request(s) lost so far", self._shown, self.counts.dropped)

    def _complain(self, kind: str, problem: str) -> None:
        """Log each kind of problem once until it ends."""
        if kind not in self._complaints:
            self._complaints.add(kind)
            logger.warning("%s: %s", self._shown, problem)


def retry_delay(attempt: int, first_delay_s: float, asked_s: float | None, fraction: float | None = None) -> float:
    """Seconds to wait after a failed attempt: a `backoff` of at most 30 s, or what the collector asks, at most 120 s,
    whichever is longer."""
    delay_s = backoff(attempt, fraction, first_s=first_delay_s, longest_s=_LONGEST_DELAY_S)
    return max(delay_s, min(asked_s or 0.0, _LONGEST_RETRY_AFTER_S))
