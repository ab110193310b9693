"""What a turn of a run looks like on the wire, as its client sends and receives it, to be stored with the turn."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from tool_call_evaluators.report import Report

from ..clock import CLOCK
from ..net.http_client import RequestHead
from ..privacy.policy import Privacy
from ..protocol.sse import EventTooLargeError, SseSplitter
from ..relay.shown_wire import shown_wire, with_texts
from ..relay.wire_json import exchange_json
from ..relay.wire_log import WireExchange, WireLog
from ..store import Store
from ..store.encoding import json_text

if TYPE_CHECKING:
    from a2a_tool_capture.wire_observer import Fields

logger = logging.getLogger(__name__)

MAX_TURN_BYTES = 512 * 1024
"""Of a turn; an exchange has at most half as many. Of more, the beginning is kept."""
MAX_RUN_BYTES = 64 * 1024 * 1024
"""Of a run: the turns after it have none."""

MAX_REPORT_BYTES = 3_000_000
"""Of a report."""

_EXCHANGE_BYTES = MAX_TURN_BYTES // 2


class TurnWire:
    """A `WireObserver` of one turn."""

    def __init__(self, turn_id: str) -> None:
        self._turn_id = turn_id
        self._log = WireLog(MAX_TURN_BYTES + _EXCHANGE_BYTES, exchange_bytes=_EXCHANGE_BYTES)  # so it never is full

    def request(self, method: str, target: str, headers: Fields, body: bytes) -> SentExchange | None:
        """See `WireObserver`; None once the turn has its `MAX_TURN_BYTES`."""
        if self._log.total >= MAX_TURN_BYTES:
            return None
        head = RequestHead(method.encode(), target.encode(), [*headers])
        exchange = WireExchange(self._log, CLOCK.now(), head)
        if not self._log.total:
            exchange.turn_id = self._turn_id
        exchange.keep(body, complete=True)
        return SentExchange(exchange)

    def as_json(self, privacy: Privacy) -> str:
        """The JSON of `shown_wire`; "" where nothing was sent, or it cannot be redacted. Never raises."""
        try:
            exchanges = [exchange_json(one) for one in self._log]
            return json_text(shown_wire(privacy, self._turn_id, exchanges)) if exchanges else ""
        except Exception as error:  # noqa: BLE001  # error boundary; the error's message may quote content
            logger.error("the wire of turn %s could not be redacted (%s); it is not kept", self._turn_id, type(error))
            return ""


class SentExchange:
    """An `ObservedExchange` that goes to a wire log."""

    def __init__(self, exchange: WireExchange) -> None:
        self._exchange = exchange
        self._events: SseSplitter | None = None

    def response(self, status: int, headers: Fields) -> None:
        exchange = self._exchange
        exchange.status, exchange.headers, exchange.response_at = status, [*headers], CLOCK.now()
        fields = {name.lower(): value for name, value in headers}
        media_type = fields.get(b"content-type", b"")
        if media_type.startswith(b"text/event-stream") and b"content-encoding" not in fields:
            self._events = SseSplitter(_EXCHANGE_BYTES)
        exchange.is_stream = self._events is not None or media_type == b"application/grpc"

    def data(self, data: bytes) -> None:
        now = CLOCK.now()
        if self._events is None:
            self._exchange.part(data, now)
            return
        try:
            for event in self._events.feed(data):
                self._exchange.part(event.raw, now)
        except EventTooLargeError:
            self._exchange.part(self._events.rest, now)
            self._events = None

    def end(self, problem: str) -> None:
        rest = self._events.rest if self._events is not None else b""
        self._exchange.end(CLOCK.now(), problem, rest)


async def stored_wires(store: Store, report: Report) -> dict[str, list[dict[str, Any]]]:
    """The exchanges of the turns of a report, as `Report.wires`, of failed conversations first, up to a limit.

    Raises StoreError."""
    found, room = {}, MAX_REPORT_BYTES
    for item in sorted(report.conversations, key=lambda one: report.status(one) != "failed"):
        for turn in item.executed:
            if room > 0 and (wire := await store.wire(turn["turn_id"])):
                found[turn["turn_id"]] = [with_texts(one) for one in wire["exchanges"]]
                room -= len(json.dumps(found[turn["turn_id"]]))
    return found
