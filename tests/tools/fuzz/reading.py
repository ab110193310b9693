"""Both ends' reading, by h11: bytes in, entries in the ledger out. Sans-io.

A fresh h11 connection reads each message, since what is sent does not concern it: agents answer before they have
read, and clients send what no h11 would.
"""

from __future__ import annotations

import h11

from .ledger import Arrival, End, Ledger
from .values import ANSWER_HEADER, TOKEN, TOKEN_HEADER, Exchange, Fate, tokens_in

_MAX_HEAD = 4 * 1024 * 1024
_OWN_CARD = b"/.well-known/"
_CLOSING_REFUSALS = frozenset({400, 408, 413, 431})


class RequestReader:
    """The requests that come on one connection to the agent, each compared with what its client sent."""

    def __init__(self, ledger: Ledger, authority: bytes) -> None:
        self._ledger = ledger
        self._authority = authority
        self._seen: list[bytes] = []
        self.doubted = ""
        """Why no further request may come; empty while one may."""
        self._begin(b"")

    def _begin(self, data: bytes) -> None:
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self.head: h11.Request | None = None
        self.exchange: Exchange | None = None
        self.arrival: Arrival | None = None
        self.body_size = 0
        self.whole = False
        self.broken = False
        """What came is no request, or belongs to no exchange: nothing more is read."""
        if data:
            self.feed(data)

    def next(self) -> None:
        """Continue with the next request; this one must be whole."""
        self._begin(self._h11.trailing_data[0])

    def _report(self, what: str, came: bytes) -> None:
        """With the last exchanges of the connection: what is wrong may be theirs."""
        self._ledger.report(f"{what}: {came[:300]!r}; on this connection of the agent came {self._seen[-3:]}")

    def feed(self, data: bytes) -> None:
        if self.doubted and (self.whole or self.head is None) and not self.broken:
            self.broken = True
            self._report(f"bytes came though the agent {self.doubted}", data)
        try:
            self._h11.receive_data(data)
            self._read()
        except h11.RemoteProtocolError as error:
            self.broken = True
            self._report(f"the agent got what is no request ({error})", data)

    def _read(self) -> None:
        while not (self.whole or self.broken):
            match self._h11.next_event():
                case h11.Request() as head:
                    self.head = head
                    self._see_head(head)
                case h11.Data(data=data):
                    self._see_body(bytes(data))
                case h11.EndOfMessage():
                    self._see_end()
                case _:
                    return

    def _see_head(self, head: h11.Request) -> None:
        got = [(name.lower(), value) for name, value in head.headers.raw_items()]
        named = TOKEN.findall(head.target) or [value for name, value in got if name == TOKEN_HEADER]
        if not named:
            if not head.target.startswith(_OWN_CARD):
                self._strange(head, "names no exchange")
            return
        self._seen.append(named[0])
        self.arrival = self._ledger.arrived(named[0])
        self.exchange = self._ledger.exchange(named[0])
        if self.exchange is None:
            self.broken = True
            return
        request = self.exchange.request
        if (head.method, head.target) != (request.method, request.target):
            self._strange(head, f"is not {request.method.decode()} {request.target.decode()}")
        for item in request.kept_headers:
            if got.count(item) != request.kept_headers.count(item):
                self._strange(head, f"lacks the field {item!r:.80}, or has it too often")
        for name, value in got:
            is_foreign = name.startswith(b"x-fuzz") and (name, value) not in request.kept_headers
            if is_foreign or name in request.hop_names or (name == b"host" and value != self._authority):
                self._strange(head, f"must not have the field {name.decode()}: {value[:60]!r}")

    def _strange(self, head: h11.Request, why: str) -> None:
        lines = b" ".join([head.method, head.target, *(b"%b: %b" % item for item in head.headers.raw_items())])
        self._report(f"a request {why}", lines)

    def _see_body(self, data: bytes) -> None:
        start = self.body_size
        self.body_size += len(data)
        if self.exchange is None:
            return
        request = self.exchange.request
        if data == request.body[start : self.body_size] or request.fate is Fate.REFUSED:
            return  # of a broken one the beginning may come, never the end
        self._report(f"the body of {self.exchange.name} differs behind byte {start}", data)
        self.broken = True

    def _see_end(self) -> None:
        self.whole = True
        if self.arrival is None or self.exchange is None:
            return
        self.arrival.whole = True
        request = self.exchange.request
        if self.body_size != len(request.body):
            self._report(f"the body of {self.exchange.name} ended after {self.body_size} of {len(request.body)}", b"")


class AnswerReader:
    """The answers that come on one connection of a client, each compared with what the agent sent."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[Exchange] = []
        self._last: Exchange | None = None
        self._parser: h11.Connection | None = None
        self._response: h11.Response | None = None
        self.size = 0
        """Bytes read so far."""
        self.closing = False
        """Whether the connection is to end: later requests on it may go unanswered."""
        self.leaving = False
        """Whether the client leaves: what is not answered is not missed."""

    @property
    def current(self) -> Exchange | None:
        """Whose answer comes next; None where none is missing."""
        return self._waiting[0] if self._waiting else None

    def expect(self, exchange: Exchange) -> None:
        """One more answer is to come, behind those expected already."""
        self._waiting.append(exchange)
        if len(self._waiting) == 1:
            self._start(b"")

    def _start(self, data: bytes) -> None:
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        self._parser.send(h11.Request(method=self._waiting[0].request.method, target="/", headers=[("host", "x")]))
        self._parser.send(h11.EndOfMessage())
        self._response, self._body, self._body_size = None, b"", 0
        if data:
            self._parse(data)

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        if self._waiting:
            self._parse(data)
        elif not self.leaving and self._last is not None:
            self._ledger.report(f"bytes behind the answer to {self._last.name}: {data[:200]!r}")

    def eof(self, *, clean: bool) -> None:
        """The connection has ended; `clean` with a FIN. What was expected has not come."""
        if self._response is not None and clean and self._parser is not None:
            try:
                self._parser.receive_data(b"")
                self._take(self._parser)
            except h11.RemoteProtocolError:
                pass
        while self._waiting:
            self._over(End.NOTHING if self._response is None else End.CUT)

    def hung(self) -> None:
        """Nothing has come for too long."""
        if self._waiting:
            self._over(End.HUNG)
        self.left()

    def left(self) -> None:
        """The client goes."""
        self.leaving = True
        while self._waiting:
            self._over(End.LEFT)

    def _over(self, end: End) -> None:
        exchange = self._last = self._waiting.pop(0)
        status = self._response.status_code if self._response is not None else 0
        self._ledger.ended(exchange.token, end, status, excused=self.closing)
        self.closing = self.closing or end not in (End.ANSWERED, End.REFUSED) or exchange.request.closes
        self._response = None

    def _parse(self, data: bytes) -> None:
        assert self._parser is not None
        try:
            self._parser.receive_data(data)
            self._take(self._parser)
        except h11.RemoteProtocolError as error:
            self._ledger.report(f"{self._waiting[0].name} got what is no answer ({error}): {data[:200]!r}")
            self.left()

    def _take(self, parser: h11.Connection) -> None:
        while self._waiting:
            match parser.next_event():
                case h11.InformationalResponse():
                    pass
                case h11.Response() as response:
                    self._see_head(response)
                case h11.Data(data=data):
                    self._see_body(bytes(data))
                case h11.EndOfMessage():
                    self._see_end()
                    rest = parser.trailing_data[0]
                    if self._waiting:
                        self._start(rest)
                    elif rest:
                        self.feed(rest)
                    return
                case _:
                    return

    def _see_head(self, response: h11.Response) -> None:
        self._response, exchange = response, self._waiting[0]
        fields = [(name.lower(), value) for name, value in response.headers.raw_items()]
        self.closing = self.closing or any(name == b"connection" and b"close" in value for name, value in fields)
        self._is_agents = any(name == ANSWER_HEADER for name, _ in fields)
        if tokens_in(b"".join(value for _, value in fields)) - {exchange.token}:
            self._ledger.report(f"{exchange.name} got the answer to another request: {fields!r}")
        elif self._is_agents and response.status_code != exchange.answer.status:
            self._ledger.report(f"{exchange.name} got {response.status_code}, the agent said {exchange.answer.status}")

    def _see_body(self, data: bytes) -> None:
        answer, start = self._waiting[0].answer, self._body_size
        self._body_size += len(data)
        if not self._is_agents:
            self._body += data
        elif data != answer.body[start : self._body_size]:
            self._differs(f"within {start} to {self._body_size}", data)

    def _differs(self, how: str, data: bytes) -> None:
        self._ledger.report(f"the answer to {self._waiting[0].name} differs {how}: {data[:200]!r}")

    def _see_end(self) -> None:
        exchange, response = self._waiting[0], self._response
        assert response is not None
        if not self._is_agents:  # the proxy's own
            if response.status_code < 400 or tokens_in(self._body) - {exchange.token} - exchange.request.smuggled:
                self._differs(f"with status {response.status_code} of no agent", self._body)
            self.closing = self.closing or response.status_code in _CLOSING_REFUSALS
            self._over(End.REFUSED)
            return
        if self._body_size < len(exchange.answer.body) and exchange.request.method != b"HEAD":
            self._differs(f"since it is over after {self._body_size} of {len(exchange.answer.body)} bytes", b"")
        self._over(End.ANSWERED)
