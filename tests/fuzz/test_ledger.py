"""The fuzzer's judge: it must see what it is there for, and excuse only what no proxy could help."""

from __future__ import annotations

from typing import Any

import pytest
from fuzz.ledger import AgentConnection, End, Fault, Ledger
from fuzz.plan import round_of
from fuzz.reading import AnswerReader, RequestReader
from fuzz.values import Answer, Answered, Exchange, Fate, Request, Send, Unasked, filler, hidden_in, token_of

A, B = token_of(0, 1), token_of(0, 2)
AUTHORITY = b"127.0.0.1:1"


def exchange(token: bytes, *, method: bytes = b"POST", fate: Fate = Fate.FORWARDED, **answer: Any) -> Exchange:
    headers = ((b"x-fuzz-token", token),)
    body = filler(token, b"q", 200)
    request = Request(method, b"/f/" + token, headers, body, (), fate, smuggled=frozenset({hidden_in(token)}))
    return Exchange(token, request, Answer(200, filler(token, b"a", 200), (Answered(),), **answer))


def request_bytes(item: Exchange, body: bytes | None = None) -> bytes:
    request = item.request
    head = b"%b %b HTTP/1.1\r\nhost: %b\r\nx-fuzz-token: %b\r\n" % (
        request.method,
        request.target,
        AUTHORITY,
        item.token,
    )
    return head + b"content-length: %d\r\n\r\n%b" % (len(request.body), request.body if body is None else body)


def answer_bytes(item: Exchange, body: bytes | None = None) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nx-fuzz-answer: %b\r\ncontent-length: 200\r\n\r\n" % item.token
    return head + (item.answer.body if body is None else body)


class Bench:
    """A ledger with two exchanges, an agent's connection and a client's, each fed by hand."""

    def __init__(self, first: Exchange, second: Exchange) -> None:
        self.ledger = Ledger()
        for item in (first, second):
            self.ledger.open(item)
        self.connection: AgentConnection = self.ledger.agent_connection()
        self.agent = RequestReader(self.ledger, self.connection, AUTHORITY)
        self.client = AnswerReader(self.ledger)

    def arrive(self, item: Exchange) -> None:
        """The agent reads the request and answers it."""
        if self.agent.head is not None:
            self.agent.next()
        self.agent.feed(request_bytes(item))
        assert self.agent.arrival is not None
        self.agent.arrival.begun = self.agent.arrival.answered = True

    def faults(self) -> list[Fault]:
        return [finding.fault for finding in self.ledger.settle()]


@pytest.fixture
def bench() -> Bench:
    return Bench(exchange(A), exchange(B))


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_what_goes_as_it_should_is_no_finding(bench: Bench, size: int) -> None:
    for item in (exchange(A), exchange(B)):
        bench.client.expect(item)
    for item in (exchange(A), exchange(B)):
        if bench.agent.head is not None:
            bench.agent.next()
        asked, answered = request_bytes(item), answer_bytes(item)
        for start in range(0, len(asked), size):
            bench.agent.feed(asked[start : start + size])
        assert bench.agent.arrival is not None
        bench.agent.arrival.begun = bench.agent.arrival.answered = True
        for start in range(0, len(answered), size):
            bench.client.feed(answered[start : start + size])
    assert bench.faults() == []
    assert bench.ledger.ends == {End.ANSWERED: 2}


# ── crossing ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_eaten_as_the_body_of_another_crosses(bench: Bench) -> None:
    bench.agent.feed(request_bytes(exchange(A), b""))
    bench.agent.feed(request_bytes(exchange(B)))
    assert bench.ledger.findings[0].fault is Fault.CROSSED
    assert bench.ledger.findings[0].tokens[:2] == (A, B)


def test_a_request_hidden_in_a_body_crosses_when_it_is_a_request(bench: Bench) -> None:
    hidden = b"GET /f/%b HTTP/1.1\r\nhost: evil\r\n\r\n" % hidden_in(A)
    bench.agent.feed(hidden)
    assert [finding.fault for finding in bench.ledger.findings] == [Fault.CROSSED]
    assert "hidden in the body" in bench.ledger.findings[0].message


def test_an_answer_to_another_crosses(bench: Bench) -> None:
    bench.arrive(exchange(A))
    bench.client.expect(exchange(A))
    bench.client.feed(answer_bytes(exchange(B)))
    assert Fault.CROSSED in bench.faults()


def test_bytes_of_another_inside_an_answer_cross(bench: Bench) -> None:
    bench.arrive(exchange(A))
    bench.client.expect(exchange(A))
    mixed = exchange(A).answer.body[:128] + exchange(B).answer.body[128:]
    bench.client.feed(answer_bytes(exchange(A), mixed))
    assert Fault.CROSSED in bench.faults()


def test_bytes_of_another_inside_an_error_cross(bench: Bench) -> None:
    bench.client.expect(exchange(A))
    bench.client.feed(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 14\r\n\r\n%b" % B)
    assert Fault.CROSSED in bench.faults()


def test_bytes_behind_the_last_answer_cross(bench: Bench) -> None:
    bench.client.expect(exchange(A))
    bench.client.feed(answer_bytes(exchange(A)))
    bench.client.feed(answer_bytes(exchange(B)))
    assert Fault.CROSSED in bench.faults()


def test_what_an_agent_says_while_a_request_comes_is_that_requests_answer(bench: Bench) -> None:
    """No proxy can know: only a connection that was quiet long enough is in doubt."""
    loose = Exchange(A, exchange(A).request, Answer(200, b"", (Send(b"stray"), Unasked(at_once=False))))
    for ambiguous in (True, False):
        bench = Bench(loose, exchange(B))
        bench.arrive(loose)
        bench.connection.ambiguous = ambiguous
        bench.arrive(exchange(B))
        bench.client.expect(exchange(B))
        bench.client.feed(answer_bytes(exchange(A)))
        assert (Fault.CROSSED in bench.faults()) is not ambiguous


# ── reuse in doubt ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_on_a_connection_in_doubt_is_a_finding(bench: Bench) -> None:
    bench.arrive(exchange(A))
    bench.connection.doubted = "had sent a second answer"
    bench.agent.next()
    bench.agent.feed(request_bytes(exchange(B)))
    assert [finding.fault for finding in bench.ledger.findings] == [Fault.DOUBTFUL]
    assert bench.ledger.findings[0].tokens == (B, A)


# ── loss, change, duplication ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", [End.REFUSED, End.CUT, End.NOTHING])
def test_an_answer_that_was_given_and_did_not_come_is_lost(bench: Bench, end: End) -> None:
    bench.arrive(exchange(A))
    bench.ledger.ended(A, end, 502 if end is End.REFUSED else 0)
    assert bench.faults() == [Fault.LOST]


def test_an_answer_that_was_cut_by_the_agent_is_not_lost() -> None:
    cut = exchange(A, delivers=False)
    bench = Bench(cut, exchange(B))
    bench.arrive(cut)
    bench.ledger.ended(A, End.CUT, 200)
    assert bench.faults() == []


def test_requests_that_never_came_need_a_connection_that_the_agent_closed(bench: Bench) -> None:
    bench.ledger.ended(A, End.REFUSED, 502)
    bench.ledger.unsaid_closes = 1
    assert bench.faults() == []
    bench.ledger.ended(B, End.REFUSED, 502)
    assert bench.faults() == [Fault.LOST]


def test_a_client_that_was_dropped_without_a_word_lost_its_answer(bench: Bench) -> None:
    bench.client.expect(exchange(A))
    bench.client.eof(clean=True)
    assert bench.faults() == [Fault.LOST]


def test_a_short_answer_that_ends_as_if_whole_is_altered(bench: Bench) -> None:
    bench.arrive(exchange(A))
    bench.client.expect(exchange(A))
    bench.client.feed(
        b"HTTP/1.1 200 OK\r\nx-fuzz-answer: %b\r\ncontent-length: 5\r\n\r\n%b" % (A, exchange(A).answer.body[:5])
    )
    assert bench.faults() == [Fault.ALTERED]


def test_a_body_that_ends_early_is_altered(bench: Bench) -> None:
    head = b"POST /f/%b HTTP/1.1\r\nhost: %b\r\nx-fuzz-token: %b\r\n" % (A, AUTHORITY, A)
    bench.agent.feed(head + b"content-length: 0\r\n\r\n")
    assert [finding.fault for finding in bench.ledger.findings] == [Fault.ALTERED]


def test_a_field_that_the_client_did_not_send_is_altered(bench: Bench) -> None:
    bench.agent.feed(request_bytes(exchange(A)).replace(b"x-fuzz-token", b"x-fuzz-more: 1\r\nx-fuzz-token"))
    assert [finding.fault for finding in bench.ledger.findings] == [Fault.ALTERED]


def test_a_broken_request_may_not_come_whole() -> None:
    broken = exchange(A, fate=Fate.REFUSED)
    bench = Bench(broken, exchange(B))
    bench.arrive(broken)
    bench.ledger.ended(A, End.REFUSED, 400)
    assert bench.faults() == [Fault.ALTERED]


@pytest.mark.parametrize(("method", "expected"), [(b"POST", [Fault.DUPLICATED]), (b"GET", [])])
def test_only_safe_requests_may_come_again_and_only_unanswered(method: bytes, expected: list[Fault]) -> None:
    item = exchange(A, method=method)
    ledger = Ledger()
    ledger.open(item)
    for _ in range(2):
        RequestReader(ledger, ledger.agent_connection(), AUTHORITY).feed(request_bytes(item))
    ledger.ended(A, End.ANSWERED, 200)
    assert [finding.fault for finding in ledger.settle()] == expected


def test_a_safe_request_answered_twice_is_duplicated() -> None:
    item = exchange(A, method=b"GET")
    bench = Bench(item, exchange(B))
    bench.arrive(item)
    bench.arrive(item)
    bench.ledger.ended(A, End.ANSWERED, 200)
    assert bench.faults() == [Fault.DUPLICATED]


def test_a_hang_names_the_exchanges_before_it(bench: Bench) -> None:
    bench.arrive(exchange(B))
    bench.arrive(exchange(A))
    bench.client.expect(exchange(A))
    bench.client.hung()
    (finding,) = bench.ledger.findings
    assert (finding.fault, finding.tokens) == (Fault.HUNG, (A, B))


# ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_round_is_a_function_of_its_seed() -> None:
    assert round_of(7, 3, connections=30) == round_of(7, 3, connections=30)
    assert round_of(7, 3, connections=30) != round_of(8, 3, connections=30)


@pytest.mark.parametrize("index", range(12))
def test_all_that_an_exchange_sends_names_it(index: int) -> None:
    plan = round_of(5, index, connections=60)
    for item in (item for connection in plan.connections for item in connection.exchanges):
        sent = b"".join(step.data for step in item.request.steps if isinstance(step, Send))
        if not item.request.leaves and item.request.fate is not Fate.REFUSED:
            assert item.token in sent, item.script()
