"""What `/metrics` says of answers: their status, and how long they took."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .metrics import Metrics

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class AnswerWatch:
    """One answer on its way to the client: counted by status, and timed. `send` takes the place of the server's."""

    __slots__ = ("_began", "_metrics", "_send", "_status")

    def __init__(self, send: Send, metrics: Metrics) -> None:
        self._send = send
        self._metrics = metrics
        self._status: int | None = None
        self._began = time.perf_counter()

    def send(self, message: MutableMapping[str, Any]) -> Awaitable[None]:
        if self._status is None and message["type"] == "http.response.start":
            self._status = message["status"]
            self._metrics.first_byte_s.add(time.perf_counter() - self._began)
        return self._send(message)

    def ended(self) -> None:
        self._metrics.responses["none" if self._status is None else self._status] += 1
        self._metrics.request_s.add(time.perf_counter() - self._began)
