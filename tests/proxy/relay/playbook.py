"""A request and its answer as a script over the core of the relay, without a socket.

`>>` is what arrives from either side, `<<` what the core then has for one of them, in order:

    Playbook() >> Client(SEND) << ToAgent(asks=True) >> Head("text/event-stream") >> Agent(EVENT) << ToClient(EVENT)
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple, Self

from a2a_eval_proxy.body_memory import BodyMemory, HeldBody
from a2a_eval_proxy.net.http_client import UpstreamError
from a2a_eval_proxy.protocol.operations import parsed_request, rest_request
from a2a_eval_proxy.relay.answer_readers import AnswerHead, AnswerReader, Rules, reader_of
from a2a_eval_proxy.relay.negotiation import Negotiation
from a2a_eval_proxy.relay.opted_in_tasks import OptedInTasks
from a2a_eval_proxy.relay.relayed_exchange import RelayedExchange
from a2a_eval_proxy.turn import CaptureFacts, Turn
from support.folded import Folded


class Client(NamedTuple):
    """The client sends a request."""

    body: bytes
    coding: str = ""
    line: str = "POST /"


class Head(NamedTuple):
    """The head of the agent's answer has arrived."""

    media_type: str
    fields: dict[bytes, bytes] = {}  # noqa: RUF012  # never changed
    status: int = 200


class Agent(NamedTuple):
    """Part of the agent's answer has arrived."""

    part: bytes


class End(NamedTuple):
    """The agent's answer is complete."""


class ToAgent(NamedTuple):
    """The request goes to the agent."""

    asks: bool


class ToClient(NamedTuple):
    """The client gets this part of the answer."""

    part: bytes


class Whole(NamedTuple):
    """The client gets the answer as a whole, with its head."""

    body: bytes


class Cut(NamedTuple):
    """Nothing more passes, for this reason."""

    why: str


class Held(HeldBody):
    """What the exchange holds, of a memory of its own."""

    most = 0

    async def room(self, more: int, *, waits: bool) -> bool:
        has_room = self.take(more)
        assert has_room or not waits, "waits for room"
        self.most = max(self.most, self.size)
        return has_room

    async def parse(self, size: int, work: Any, *arguments: Any) -> Any:
        return work(*arguments)


class _OwnUrls:
    """The client's own URL for each address of the proxy."""

    def __init__(self, own_urls: dict[bytes, bytes]) -> None:
        self._own_urls = own_urls

    def may_show(self, data: bytes) -> bool:
        return any(address in data for address in self._own_urls)

    async def restored(self, body: bytes) -> bytes:
        for address, url in self._own_urls.items():
            body = body.replace(address, url)
        return body


class Playbook:
    """One exchange. `turns` has what capture made of it, after its end."""

    def __init__(
        self,
        *,
        requested: bool = False,
        negotiate: str = "always",
        caller: bytes | None = b"ann",
        opted_in: OptedInTasks | None = None,
        limit: int = 1_000_000,
        room: int = 10_000_000,
        own_urls: dict[bytes, bytes] | None = None,
    ) -> None:
        """`room`: bytes that may be held. `own_urls`: the client's own URL for each address of the proxy."""
        self._folded = Folded()
        self.held = Held(BodyMemory(room))
        self._own_urls = own_urls
        turn = Turn("turn", "run", "agent", "", "1.0", 0.0, trace_id="0af7", capture=CaptureFacts(declared=True))
        self.opted_in = OptedInTasks() if opted_in is None else opted_in
        book = self._folded.book
        self.exchange = RelayedExchange(turn, requested, book, None, self.opted_in, lambda: caller, limit)
        self._negotiation = Negotiation(negotiate, self._no_card)
        self._reader: AnswerReader | None = None
        self._out: list[Any] = []
        self.seen: list[bytes] = []
        self.cut: Cut | None = None

    def __rshift__(self, arrives: Client | Head | Agent | End) -> Self:
        assert self._out == [], "what the core had for a peer is to be said first"
        try:
            self._take(arrives)
        except UpstreamError as error:
            self._out.append(Cut(str(error)))
            self.exchange.end()
        return self

    def __lshift__(self, expected: ToAgent | ToClient | Whole | Cut) -> Self:
        assert self._out[:1] == [expected]
        del self._out[0]
        return self

    @property
    def turns(self) -> list[Turn]:
        return self._folded.closed

    def got(self) -> list[bytes]:
        """Take what there is for the client, whatever it is; `seen` has all of it, `cut` why nothing more passes."""
        taken, self._out = self._out, []
        self.cut = next((one for one in taken if isinstance(one, Cut)), None)
        self.seen += [one[0] for one in taken if not isinstance(one, Cut)]
        return [one[0] for one in taken]

    def shown(self) -> bytes:
        """The whole answer that the client gets."""
        (whole,) = self._out
        assert isinstance(whole, Whole)
        self._out.clear()
        return whole.body

    @property
    def codes(self) -> list[str]:
        """Of the findings of its only turn, after the last step."""
        (turn,) = self.stopped
        return [finding.code for finding in turn.findings]

    @property
    def stopped(self) -> list[Turn]:
        """Its turns, after the last step."""
        assert self._out == [], "nothing is left for a peer"
        self.exchange.end()
        self._folded.stops()
        return self.turns

    def _take(self, arrives: Client | Head | Agent | End) -> None:
        match arrives:
            case Client(body, coding, line):
                method, _, target = line.partition(" ")
                path, _, query = target.partition("?")
                rest = rest_request(method, path, query.encode())
                content = self._done(self.exchange.decoded(body, coding, self.held))
                self.exchange.take_request(parsed_request(rest, content))
                self.exchange.asked = self._negotiation.asks(self.exchange.request)
                self._out.append(ToAgent(self.exchange.asked))
                self.exchange.report_request(rest, None, body, 1.0)
            case Head(media_type, fields, status):
                known = {b"content-type": media_type.encode(), **fields}
                head = AnswerHead(status, list(known.items()), known, is_complete=False)
                strips = not self.exchange.requested
                webhooks: Any = None if self._own_urls is None else _OwnUrls(self._own_urls)
                rules = Rules(strips, self.exchange.asked and strips, webhooks)
                self._reader = reader_of(self.exchange, head, rules, self, is_head=False)
            case Agent(part):
                assert self._reader is not None
                self._done(self._reader.feed(part, 2.0))
            case End():
                assert self._reader is not None
                self._done(self._reader.end(3.0))
                self.exchange.end()

    @staticmethod
    def _done(steps: Coroutine[Any, Any, Any]) -> Any:
        """Nothing in them waits."""
        try:
            steps.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("it waits")

    async def show(self, reader: AnswerReader, content: bytes) -> None:
        if content or reader.holds_head:
            self._out.append(Whole(content) if reader.holds_head else ToClient(content))

    @staticmethod
    async def _no_card() -> Any:
        raise ValueError("there is no card")
