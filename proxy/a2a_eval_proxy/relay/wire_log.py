"""The bytes of recent exchanges with the agent, in memory only: what turns looked like on the wire.

The log refers to bytes that the byte path has anyway. It forgets the oldest exchanges when it is full, and old ones;
under load, it keeps only some.
Sans-io.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence

from ..net.http_client import RawHeaders

MAX_AGE_S = 24 * 3600.0
MAX_EXCHANGE_BYTES = 2 * 1024 * 1024
"""For the request and the response of one exchange; of more, the beginning is kept."""

MAX_PER_S, MAX_AT_ONCE = 20, 50
"""Limits of new exchanges; others are not kept. Keeping all adds a tenth to the cost of a request under full load:
their memory displaces other data from caches."""

_EXCHANGE_BYTES, _PART_BYTES = 3_000, 120
"""Memory of an exchange and of a part in addition to their bytes: about what CPython takes."""

Part = tuple[float, bytes]
"""When bytes arrived, in seconds since the epoch, and the bytes."""


class WireRecord:
    """What is kept of one exchange with the agent, or of one notification and the answer that the agent got. Its log
    counts it; nothing is kept any more once `forgotten`."""

    # Defaults are of the class: most exchanges set few of them, and each assignment takes time on the byte path.
    body = b""
    """The body of the request, or its beginning (`body_is_cut`)."""
    body_is_cut = False
    turn_id = ""
    """The turn that the request opened; "" for one that only asks about tasks."""
    named_task = ""
    """The task in the request."""
    task_ids: Sequence[str] = ()
    """The tasks in the response so far."""
    status = 0
    """0 until the header of the response arrives."""
    headers: RawHeaders = []  # noqa: RUF012  # replaced, never changed
    response_at = 0.0
    is_stream = False
    """Whether `parts` are server-sent events without their content coding, or pieces of the body as received."""
    left_out = events_left_out = 0
    """Bytes of the response that are not kept, and the number of events that have none in `parts`."""
    ended_at: float | None = None
    is_notification = False
    """Whether the agent sent the request, to a webhook of a client."""
    problem = ""
    """The code of the finding that explains how it ended; "" for a complete response."""
    size = 0
    forgotten = False

    def __init__(self, log: WireLog, started_at: float, head: bytes | None) -> None:
        self._log = log
        self.started_at = started_at
        self.head = head
        """The head sent to the agent; None where it was not sent."""
        self.parts: list[Part] = []

    def answer_begins(self, status: int, headers: RawHeaders, now: float, is_stream: bool) -> None:
        """The header of the response arrived."""
        self.status, self.headers, self.response_at, self.is_stream = status, headers, now, is_stream

    def part(self, data: bytes, now: float) -> None:
        """Bytes of the response arrived."""
        if self.forgotten:
            return
        room = MAX_EXCHANGE_BYTES - self.size
        if len(data) > room or self.left_out:
            kept = data[: max(0, room - _PART_BYTES)] if not self.left_out else b""
            self.left_out += len(data) - len(kept)
            if not kept:
                self.events_left_out += self.is_stream
                return
            data = kept
        self.parts.append((now, data))
        self._log.grow(self, _PART_BYTES + len(data))

    def end(self, now: float, problem: str, rest: bytes) -> None:
        """The exchange ended, with `problem` or as it should; `rest` is the event that was not complete then."""
        self.ended_at = now
        if problem:
            self.problem = problem
        if rest and self.is_stream and not (self.parts and self.parts[-1][1] == rest):
            self.part(rest, now)

    def forget(self) -> None:
        self.forgotten = True
        self.parts = []

    @property
    def request(self) -> tuple[str, str, RawHeaders]:
        """Method, target and headers of the request."""
        first, *lines = (self.head or b"").rstrip(b"\r\n").split(b"\r\n")
        method, _, target = first.decode("latin-1").removesuffix(" HTTP/1.1").partition(" ")
        return method, target, [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]

    def concerns(self, turn_id: str, tasks: Collection[str], until: float | None) -> bool:
        """Whether it opened this turn, or asked about one of its `tasks` before the turn ended."""
        if self.turn_id:
            return self.turn_id == turn_id
        asked = self.named_task in tasks or any(task_id in tasks for task_id in self.task_ids)
        return asked and (until is None or self.started_at <= until)


class WireLog:
    """The exchanges that concern turns, oldest first, within a limit of bytes. Belongs to one event loop."""

    def __init__(self, limit: int, max_age_s: float = MAX_AGE_S) -> None:
        self.limit = limit
        self.total = 0
        self._max_age_s = max_age_s
        self._exchanges: deque[WireRecord] = deque()
        self._admissible = float(MAX_AT_ONCE)
        self._counted_at = 0.0

    def __iter__(self) -> Iterator[WireRecord]:
        return iter(self._exchanges)

    def begin(self, now: float, head: bytes | None, body: bytes, *, is_cut: bool = False) -> WireRecord | None:
        """Keep an exchange that begins `now` (seconds, of any clock), and what follows: None if many others began
        lately. `is_cut`: `body` is only the beginning of the request's."""
        elapsed = max(0.0, now - self._counted_at)
        self._counted_at = now
        self._admissible = min(MAX_AT_ONCE, self._admissible + elapsed * MAX_PER_S)
        if self._admissible < 1.0:
            return None
        self._admissible -= 1.0
        exchange = WireRecord(self, now, head)
        exchange.body = body[: MAX_EXCHANGE_BYTES // 2]
        exchange.body_is_cut = is_cut or len(exchange.body) < len(body)
        self._exchanges.append(exchange)
        self.grow(exchange, _EXCHANGE_BYTES + len(exchange.body))
        return exchange

    def grow(self, exchange: WireRecord, more: int) -> None:
        """`exchange` has `more` bytes: forget the oldest exchanges where that is too much."""
        exchange.size += more
        self.total += more
        while self.total > self.limit:
            self._forget_oldest()

    def expire(self, now: float) -> None:
        """Forget exchanges that began more than `max_age_s` ago."""
        while self._exchanges and self._exchanges[0].started_at < now - self._max_age_s:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = self._exchanges.popleft()
        self.total -= oldest.size
        oldest.forget()

    def of_turn(self, turn_id: str, tasks: Collection[str], began: float, ended: float | None) -> list[WireRecord]:
        """The exchanges of a turn: the one that opened it, and those about its tasks while it was open.

        `tasks` are added to the tasks in the response to its message. Times are seconds since the epoch, `ended` is
        None for an open turn.
        """
        known = {task_id for one in self if one.turn_id == turn_id for task_id in one.task_ids} | set(tasks)
        return [
            one
            for one in self
            if one.concerns(turn_id, known, ended) and (one.ended_at is None or one.ended_at >= began)
        ]
