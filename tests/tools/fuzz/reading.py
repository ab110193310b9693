"""Both ends' reading, by h11: bytes in, entries in the ledger out. Sans-io.

A fresh h11 connection reads each message, since what is sent does not concern it: agents answer before they have
read, and clients send what no h11 would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import h11

from .ledger import AgentConnection, Arrival, End, Fault, Ledger
from .values import ANSWER_HEADER, REPEATED, TOKEN, TOKEN_HEADER, Exchange, Fate, tokens_in

_MAX_HEAD = 4 * 1024 * 1024
_DEFAULT_FIELDS = frozenset({b"x-fuzz-token", b"content-type", b"authorization"})


class RequestReader:
    """The requests that come on one connection to the agent, each compared with what its client sent."""

    def __init__(
        self,
        ledger: Ledger,
        connection: AgentConnection,
        authority: bytes,
        is_for: Callable[[bytes], bool] = lambda token: True,
    ) -> None:
        """`is_for`: whether the exchange with this token is with the agent."""
        self._is_for = is_for
        self._ledger = ledger
        self._connection = connection
        self._authority = authority
        self._begin(b"")

    def _begin(self, data: bytes) -> None:
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        self.head: h11.Request | None = None
        self._unnamed: h11.Request | None = None
        self._beginning = b""
        self.exchange: Exchange | None = None
        self.arrival: Arrival | None = None
        self.body_size = 0
        self.whole = False
        self.broken = False
        """What came is no request, or belongs to no exchange: nothing more is read."""
        if data:
            self.feed(data)

    @property
    def excess(self) -> bytes:
        """What came behind the request."""
        return self._h11.trailing_data[0] if self.whole else b""

    def next(self) -> None:
        """Continue with the next request; this one must be whole."""
        self._begin(self.excess)

    def feed(self, data: bytes) -> None:
        between = self.whole or (self.head is None and self._unnamed is None)
        if between and not self.broken and not self._ledger.came(data, self._connection):
            self.broken = True
        try:
            self._h11.receive_data(data)
            if not self.whole and not self.broken:
                self._read()
        except h11.RemoteProtocolError as error:
            self.broken = True
            tokens = self._connection.tokens[::-1]
            message = f"the agent got what is no request ({error}): {data[:200]!r}"
            self._ledger.report(Fault.CROSSED, message, *_unique([*tokens, *tokens_in(data)]))

    def _read(self) -> None:
        while True:
            event = self._h11.next_event()
            if isinstance(event, h11.Request):
                if event.target == REPEATED:
                    self._unnamed = event
                else:
                    self.head = event
                    self._see_head(event)
            elif isinstance(event, h11.Data):
                if self._unnamed is None:
                    self._see_body(bytes(event.data))
                else:
                    self._see_beginning(bytes(event.data), self._unnamed)
            elif isinstance(event, h11.EndOfMessage):
                self._see_end()
                return
            else:
                return
            if self.broken:
                return

    def _see_head(self, head: h11.Request) -> None:
        fields = head.headers.raw_items()
        names = [value for name, value in fields if name.lower() == TOKEN_HEADER]
        in_target = TOKEN.findall(head.target)
        if not names and not in_target:
            if not _WELL_KNOWN.match(head.target):
                self._strange(head, "names no exchange")
            return
        self._see_token(head, (in_target or names)[0])

    def _see_beginning(self, data: bytes, head: h11.Request) -> None:
        """The head of a request whose body names the exchange counts as read when its token has come."""
        self._beginning += data
        found = TOKEN.match(self._beginning)
        if found is None:
            if len(self._beginning) >= 64:
                self._strange(head, "has a body that names no exchange")
                self.broken = True
            return
        data, self._beginning = self._beginning, b""
        self.head, self._unnamed = head, None
        self._see_token(head, found[0])
        self._see_body(data)

    def _see_token(self, head: h11.Request, token: bytes) -> None:
        if not self._is_for(token):
            self._ledger.report(Fault.CROSSED, f"a request for another agent: {head.target!r}", token)
        self.arrival = self._ledger.arrived(token, self._connection)
        self.exchange = self._ledger.exchange(token)
        if self.exchange is None:
            self.broken = True
            return
        self._compare_head(head, self.exchange)

    def _compare_head(self, head: h11.Request, exchange: Exchange) -> None:
        request = exchange.request
        got = [(name.lower(), value) for name, value in head.headers.raw_items()]
        if (head.method, head.target) != (request.method, request.target):
            self._strange(head, f"is not {request.method.decode()} {request.target.decode()}")
        for name, value in request.headers:
            if got.count((name, value)) != request.headers.count((name, value)):
                self._strange(head, f"lacks the field {name.decode()}: {value[:60]!r}, or has it too often")
        for name, value in got:
            if name in request.hops:
                self._strange(head, f"has the hop-by-hop field {name.decode()}")
            if (name.startswith(b"x-fuzz") or name in _DEFAULT_FIELDS) and (name, value) not in request.headers:
                self._strange(head, f"has a field that its client did not send: {name.decode()}: {value[:60]!r}")
            if name == b"host" and value != self._authority:
                self._strange(head, f"names the host {value!r}, not the agent")

    def _strange(self, head: h11.Request, why: str) -> None:
        tokens = _unique([*tokens_in(head.target), *self._connection.tokens[::-1]])
        lines = b" ".join([head.method, head.target, *(b"%b: %b" % item for item in head.headers.raw_items())])
        fault = Fault.CROSSED if tokens_in(lines) - set(tokens[:1]) else Fault.ALTERED
        self._ledger.report(fault, f"a request {why}: {lines[:300]!r}", *tokens)

    def _see_body(self, data: bytes) -> None:
        start = self.body_size
        self.body_size += len(data)
        if self.exchange is None:
            return
        request = self.exchange.request
        expected = request.body[start : self.body_size]
        if data == expected or request.fate is Fate.REFUSED:  # of a broken one the beginning may come, never the end
            return
        own = self.exchange.token
        foreign = tokens_in(data) - {own} - request.smuggled
        at = next(
            (index for index, pair in enumerate(zip(data, expected, strict=False)) if pair[0] != pair[1]), len(expected)
        )
        fault = Fault.CROSSED if foreign or data[at : at + 5].split(b" ")[0] in _METHODS else Fault.ALTERED
        message = f"the body of {own.decode()} differs at byte {start + at}: {data[at : at + 120]!r}"
        self._ledger.report(fault, message, own, *foreign)
        self.broken = True

    def _see_end(self) -> None:
        self.whole = True
        if self.arrival is None or self.exchange is None:
            return
        self.arrival.whole = True
        request = self.exchange.request
        if self.body_size != len(request.body) and not (request.body_may_be_dropped and self.body_size == 0):
            message = f"the body of {self.exchange.name} ended after {self.body_size} of {len(request.body)} bytes"
            self._ledger.report(Fault.ALTERED, message, self.exchange.token)


class AnswerReader:
    """The answers that come on one connection of a client, each compared with what the agent sent."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[Exchange] = []
        self._last: Exchange | None = None
        self._parser: h11.Connection | None = None
        self._reset()
        self.size = 0
        """Bytes read so far."""
        self.continued = False
        """Whether `100 Continue`, or an answer, has come for the current exchange."""
        self.closing = False
        """Whether the connection is to end: later requests on it may go unanswered."""
        self.leaving = False
        """Whether the client leaves: what is not answered is not missed."""

    def _reset(self) -> None:
        self._response: h11.Response | None = None
        self._body: list[bytes] = []
        self._body_size = 0
        self._differs = False
        self._other = False
        """Whether the answer is another's, which the ledger knows."""
        self.continued = False

    @property
    def pending(self) -> int:
        return len(self._waiting)

    @property
    def current(self) -> Exchange | None:
        return self._waiting[0] if self._waiting else None

    def expect(self, exchange: Exchange) -> None:
        """One more answer is to come, behind those expected already."""
        self._waiting.append(exchange)
        if len(self._waiting) == 1:
            self._start()

    def _start(self, data: bytes = b"") -> None:
        self._reset()
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
        method = self._waiting[0].request.method
        self._parser.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
        self._parser.send(h11.EndOfMessage())
        if data:
            self._parse(data)

    def feed(self, data: bytes) -> None:
        self.size += len(data)
        if self._waiting:
            self._parse(data)
        elif not self.leaving and self._last is not None:
            tokens = _unique([self._last.token, *tokens_in(data)])
            self._ledger.report(Fault.CROSSED, f"bytes behind the last answer: {data[:200]!r}", *tokens)

    def eof(self, *, clean: bool) -> None:
        """The connection has ended; `clean` with a FIN. What was expected has not come."""
        if self._waiting and self._response is not None and clean and self._parser is not None:
            try:
                self._parser.receive_data(b"")
                self._take()
            except h11.RemoteProtocolError:
                pass
        if self._waiting and self._response is not None:
            self._over(End.CUT)
        while self._waiting:
            self._over(End.NOTHING)

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
        self._reset()

    def _parse(self, data: bytes) -> None:
        assert self._parser is not None
        try:
            self._parser.receive_data(data)
            self._take()
        except h11.RemoteProtocolError as error:
            own = self._waiting[0].token
            message = f"the client of {own.decode()} got what is no answer ({error}): {data[:200]!r}"
            self._ledger.report(Fault.ALTERED, message, own, *(tokens_in(data) - {own}))
            self.left()

    def _take(self) -> None:
        assert self._parser is not None
        while self._waiting:
            event = self._parser.next_event()
            if isinstance(event, h11.InformationalResponse):
                self.continued = True
            elif isinstance(event, h11.Response):
                self.continued = True
                self._see_head(event)
            elif isinstance(event, h11.Data):
                self._see_body(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                rest = self._parser.trailing_data[0]
                self._see_end()
                if self._waiting:
                    self._start(rest)
                elif rest:
                    self.feed(rest)
                return
            else:
                return

    def _see_head(self, response: h11.Response) -> None:
        self._response = response
        exchange = self._waiting[0]
        fields = response.headers.raw_items()
        if any(name.lower() == b"connection" and b"close" in value.lower() for name, value in fields):
            self.closing = True
        named = self._named()
        foreign = tokens_in(b"".join(value for _, value in fields)) - {exchange.token}
        if foreign:
            self._other = True
            message = f"the client of {exchange.name} got an answer to another request: {fields!r}"
            self._ledger.foreign(exchange.token, foreign, message)
        elif named and response.status_code != exchange.answer.status:
            message = f"{exchange.name} has status {response.status_code}, the agent said {exchange.answer.status}"
            self._ledger.report(Fault.ALTERED, message, exchange.token)

    def _named(self) -> bytes | None:
        """Whom the answer says it is for; None where it is the proxy's own."""
        assert self._response is not None
        return next(
            (value for name, value in self._response.headers.raw_items() if name.lower() == ANSWER_HEADER), None
        )

    def _see_body(self, data: bytes) -> None:
        exchange = self._waiting[0]
        start = self._body_size
        self._body_size += len(data)
        if self._other:
            return
        if self._named() is None or exchange.answer.is_card:
            self._body.append(data)
        elif not self._differs and data != exchange.answer.body[start : self._body_size]:
            self._differs = True
            foreign = tokens_in(data) - {exchange.token}
            message = f"the answer to {exchange.name} differs within {start} to {self._body_size}: {data[:160]!r}"
            if foreign:
                self._ledger.foreign(exchange.token, foreign, message)
            else:
                self._ledger.report(Fault.ALTERED, message, exchange.token)

    def _see_end(self) -> None:
        exchange = self._waiting[0]
        if self._other:
            self._over(End.REFUSED)
            return
        if self._named() is None:
            self._see_refusal(exchange)
            return
        if exchange.answer.is_card:
            self._compare_card(exchange)
        elif self._body_size < len(exchange.answer.body) and exchange.request.method != b"HEAD":
            message = (
                f"the answer to {exchange.name} ends as if whole after {self._body_size} of {len(exchange.answer.body)}"
            )
            self._ledger.report(Fault.ALTERED, message, exchange.token)
        self._over(End.ANSWERED)

    def _see_refusal(self, exchange: Exchange) -> None:
        body = b"".join(self._body)
        foreign = tokens_in(body) - {exchange.token} - exchange.request.smuggled
        assert self._response is not None
        if foreign:
            message = f"the error for {exchange.name} holds bytes of another exchange: {body[:200]!r}"
            self._ledger.report(Fault.CROSSED, message, exchange.token, *foreign)
        elif self._response.status_code < 400:
            message = f"{exchange.name} was answered {self._response.status_code} by no agent: {body[:200]!r}"
            self._ledger.report(Fault.ALTERED, message, exchange.token)
        if self._response.status_code in (400, 408, 413, 431):
            self.closing = True
        self._over(End.REFUSED)

    def _compare_card(self, exchange: Exchange) -> None:
        body = b"".join(self._body)
        foreign = tokens_in(body) - {exchange.token}
        if foreign:
            message = f"the answer to {exchange.name} holds bytes of another: {body[:200]!r}"
            self._ledger.report(Fault.CROSSED, message, exchange.token, *foreign)
        elif _name_in(body) != _name_in(exchange.answer.body):
            message = f"the answer to {exchange.name} is another: {body[:300]!r}"
            self._ledger.report(Fault.ALTERED, message, exchange.token)


_METHODS = frozenset({b"GET", b"POST", b"PUT", b"HEAD", b"DELET", b"OPTIO"})
_WELL_KNOWN = re.compile(rb"/\.well-known/")


def _name_in(card: bytes) -> Any:
    """None where it cannot be read."""
    try:
        return json.loads(card)["name"]
    except (ValueError, KeyError, TypeError):
        return None


def _unique(tokens: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(tokens))
