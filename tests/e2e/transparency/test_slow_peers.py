"""Peers that are slow, stop in the middle, leave or send too much: their exchange ends, and no other suffers."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import h11
import httpx
import pytest
from agents.h11_agent import H11Agent, Request, Wire
from e2e.transparency.sockets import connect, until_closed
from support.patience import PATIENCE_S
from support.proxy import Proxy

LIMITS = ("--timeouts", "client_header=1", "--timeouts", "client_body=1")
GET = b"GET /%b HTTP/1.1\r\nhost: x\r\n\r\n"
ANSWERED = 'responses_total{code="200"}'


def ask(proxy: Proxy) -> str:
    """Another client's request, on a connection of its own."""
    return httpx.get(f"{proxy.url}/other", trust_env=False).text


def metric(proxy: Proxy, name: str) -> float:
    prefix = f"a2a_eval_proxy_{name} "
    found = [line for line in proxy.get_text("/metrics").splitlines() if line.startswith(prefix)]
    return float(found[0].removeprefix(prefix)) if found else 0.0


# ── readers ─────────────────────────────────────────────────────────────────────────────────────────────────


async def large(wire: Wire, request: Request) -> None:
    """As many bytes as the target says, at once."""
    await wire.read_body(request)
    if request.target.startswith(b"/large/"):
        wire.answer(b"x" * int(request.target.rpartition(b"/")[2]), content_type=b"text/plain")
    else:
        wire.answer(b"mine", content_type=b"text/plain")


@dataclass
class Held:
    """As `large`, but other requests are answered only once they are released."""

    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    released: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, wire: Wire, request: Request) -> None:
        if not request.target.startswith(b"/large/"):
            self.arrived.release()
            await asyncio.to_thread(self.released.wait, PATIENCE_S)
        await large(wire, request)


@pytest.mark.parametrize("then", ["reads on", "leaves", "resets"])
@pytest.mark.parametrize("size", [3_750_000, 8_000_000])
def test_a_slow_reader_takes_no_connection_from_another(
    size: int, then: str, plain_agent: H11Agent, plain_proxy: Proxy
) -> None:
    """Its answer has left the agent: the connection may be another's by the time it reads on or goes."""
    plain_agent.behave = held = Held()
    before = metric(plain_proxy, ANSWERED)
    with connect(plain_proxy.url) as slow:
        slow.sendall(GET % b"large/%d" % size)
        head = slow.recv(100, socket.MSG_WAITALL)
        assert head.startswith(b"HTTP/1.1 200")
        answers: list[str] = []
        others = [threading.Thread(target=lambda: answers.append(ask(plain_proxy))) for _ in range(3)]
        for other in others:
            other.start()
        for _ in others:
            assert held.arrived.acquire(timeout=PATIENCE_S)
        if then == "reads on":
            read = len(head)
            while read < size:
                read += len(slow.recv(1 << 20))
        elif then == "resets":
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    while metric(plain_proxy, ANSWERED) == before:  # until the proxy knows; the test's time limit ends it
        pass
    held.released.set()
    for other in others:
        other.join(PATIENCE_S)
    assert [*answers, ask(plain_proxy)] == ["mine"] * 4


# ── senders ─────────────────────────────────────────────────────────────────────────────────────────────────


async def answers_while_it_reads(wire: Wire, heard: threading.Event) -> None:
    """Begins its response at once, reads once the client has heard that, and ends with a digest of what came."""
    wire.send(h11.Response(status_code=200, headers=[(b"transfer-encoding", b"chunked")]), h11.Data(data=b"begun "))
    await asyncio.to_thread(heard.wait, PATIENCE_S)
    digest = hashlib.sha256()
    while isinstance(event := await wire.next_event(), h11.Data):
        digest.update(event.data)
    wire.send(h11.Data(data=digest.hexdigest().encode()), h11.EndOfMessage())


def test_an_upload_arrives_whole_at_an_agent_that_answers_meanwhile(plain_agent: H11Agent, plain_proxy: Proxy) -> None:
    heard = threading.Event()
    plain_agent.behave = lambda wire, _: answers_while_it_reads(wire, heard)
    body = bytes(range(256)) * 160_000  # more than is kept on the way
    head = b"POST /rpc HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n"
    head += b"content-length: %d\r\n\r\n" % len(body)
    with connect(plain_proxy.url) as client:
        sending = threading.Thread(target=client.sendall, args=(head + body,))
        sending.start()
        answer = b""
        while b"begun" not in answer:
            answer += client.recv(65_536)
        assert sending.is_alive()
        heard.set()
        answer += until_closed(client)
        sending.join(PATIENCE_S)
    assert hashlib.sha256(body).hexdigest().encode() in answer
    assert answer.endswith(b"0\r\n\r\n")


@pytest.fixture(scope="module")
def strict_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """One with short time limits for clients."""
    with H11Agent() as agent, Proxy(agent.url, tmp_path_factory.mktemp("store") / "turns.db", *LIMITS) as proxy:
        yield proxy


@pytest.mark.parametrize(
    ("beginning", "reason", "answered"),
    [
        (b"", "header_timeout", False),
        (b"GET / HTTP/1.1\r\nhost: ", "header_timeout", True),
        (b"\r\n", "header_timeout", True),
        (GET % b"first" + b"GET / HTTP/1.1\r\n", "header_timeout", True),
        (b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf", "body_timeout", True),
        (b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", "body_timeout", True),
    ],
    ids=["silent", "half a header", "a blank line", "half a second header", "half a body", "half a chunked body"],
)
def test_clients_that_stop_in_the_middle_are_cut_off(
    beginning: bytes, reason: str, answered: bool, strict_proxy: Proxy
) -> None:
    counted = f'client_errors_total{{reason="{reason}"}}'
    before = metric(strict_proxy, counted)
    with connect(strict_proxy.url) as client:
        client.sendall(beginning)
        received = until_closed(client)
    assert (b"HTTP/1.1 408 Request Timeout\r\n" in received) == answered
    assert metric(strict_proxy, counted) == before + 1
