"""Peers that are slow, stop in the middle, leave or send too much: their exchange ends, and no other suffers."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import h11
import httpx
import pytest
from agents.h11_agent import H11Agent, Request, Wire, echo
from support.patience import PATIENCE_S
from support.proxy import Proxy

LIMITS = (
    *("--timeouts", "client_header=1"),
    *("--timeouts", "client_body=1"),
    *("--timeouts", "client_send=2"),
)
GET = b"GET /%b HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture(scope="module")
def agent() -> Iterator[H11Agent]:
    with H11Agent() as agent:
        yield agent


@pytest.fixture(scope="module")
def proxy(agent: H11Agent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy(agent.url, tmp_path_factory.mktemp("store") / "turns.db") as proxy:
        yield proxy


@pytest.fixture(scope="module")
def strict_proxy(agent: H11Agent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """One with short time limits for clients."""
    with Proxy(agent.url, tmp_path_factory.mktemp("store") / "turns.db", *LIMITS) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def _forget(agent: H11Agent) -> None:
    agent.behave = echo
    agent.requests.clear()


def connect(proxy: Proxy) -> socket.socket:
    host, port = proxy.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), PATIENCE_S)


def ask(proxy: Proxy, path: str = "/other") -> str:
    """Another client's request, on a connection of its own."""
    return httpx.get(proxy.url + path, trust_env=False).text


def errors(proxy: Proxy, reason: str) -> float:
    """What /metrics counts of one reason."""
    return metric(proxy, f'client_errors_total{{reason="{reason}"}}')


def answered(proxy: Proxy) -> float:
    """Exchanges that are over, of those that were answered with 200."""
    return metric(proxy, 'responses_total{code="200"}')


def metric(proxy: Proxy, name: str) -> float:
    prefix = f"a2a_eval_proxy_{name} "
    found = [line for line in proxy.get_text("/metrics").splitlines() if line.startswith(prefix)]
    return float(found[0].removeprefix(prefix)) if found else 0.0


def until_closed(connection: socket.socket) -> bytes:
    """Everything up to the end of a connection."""
    received = b""
    try:
        while piece := connection.recv(65_536):
            received += piece
    except ConnectionError:
        pass  # an abort is an end
    return received


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
def test_a_slow_reader_takes_no_connection_from_another(size: int, then: str, agent: H11Agent, proxy: Proxy) -> None:
    """Its answer has left the agent: the connection may be another's by the time it reads on or goes."""
    agent.behave = held = Held()
    before = answered(proxy)
    with connect(proxy) as slow:
        slow.sendall(GET % b"large/%d" % size)
        head = slow.recv(100, socket.MSG_WAITALL)
        assert head.startswith(b"HTTP/1.1 200")
        answers: list[str] = []
        others = [threading.Thread(target=lambda: answers.append(ask(proxy))) for _ in range(3)]
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
    while answered(proxy) == before:  # until the proxy knows; the test's time limit ends it
        pass
    held.released.set()
    for other in others:
        other.join(PATIENCE_S)
    assert [*answers, ask(proxy)] == ["mine"] * 4


# ── senders ─────────────────────────────────────────────────────────────────────────────────────────────────


async def answers_while_it_reads(wire: Wire, stuck: threading.Event) -> None:
    """Begins its response at once, reads once the client is stuck, and ends with a digest of what came."""
    wire.send(h11.Response(status_code=200, headers=[(b"transfer-encoding", b"chunked")]), h11.Data(data=b"begun "))
    await asyncio.to_thread(stuck.wait, PATIENCE_S)
    digest = hashlib.sha256()
    while isinstance(event := await wire.next_event(), h11.Data):
        digest.update(event.data)
    wire.send(h11.Data(data=digest.hexdigest().encode()), h11.EndOfMessage())


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_upload_arrives_whole_at_an_agent_that_answers_meanwhile(
    framing: str, agent: H11Agent, proxy: Proxy
) -> None:
    stuck = threading.Event()
    agent.behave = lambda wire, _: answers_while_it_reads(wire, stuck)
    piece = bytes(range(256)) * 1000
    count = 400  # more than the kernel keeps on both hops
    whole = piece * count
    chunked = framing == "chunked"
    frame = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % len(whole)
    body = b"%x\r\n%b\r\n" % (len(piece), piece) * count + b"0\r\n\r\n" if chunked else whole
    with connect(proxy) as client:
        client.sendall(b"POST /up HTTP/1.1\r\nhost: x\r\ncontent-type: x/y\r\nconnection: close\r\n%b\r\n\r\n" % frame)
        sent = fill(client, body, len(body))
        assert sent < len(body)
        stuck.set()
        client.settimeout(PATIENCE_S)
        client.sendall(body[sent:])
        answer = until_closed(client)
    assert hashlib.sha256(whole).hexdigest().encode() in answer
    assert answer.endswith(b"0\r\n\r\n")


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
    before = errors(strict_proxy, reason)
    with connect(strict_proxy) as client:
        client.sendall(beginning)
        received = until_closed(client)
    assert (b"HTTP/1.1 408 Request Timeout\r\n" in received) == answered
    assert errors(strict_proxy, reason) == before + 1


def test_a_slow_upload_and_a_quiet_stream_are_not_cut_off(agent: H11Agent, strict_proxy: Proxy) -> None:
    """The limits count a client's silence, not how long its request takes, and not the agent's silence."""

    async def quiet(wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        wire.send(h11.Response(status_code=200, headers=[(b"content-type", b"text/event-stream")]))
        await wire.writer.drain()
        await asyncio.sleep(3.5)  # longer than each limit: what is tested
        wire.send(h11.Data(data=b"data: %d\n\n" % len(request.body)), h11.EndOfMessage())

    agent.behave = quiet
    for _ in range(3):
        longest_pause_s, answer = slow_upload(strict_proxy)
        if longest_pause_s < 0.5:  # otherwise the machine stood still, and the client was silent for too long
            break
    assert b"data: 50" in answer


def slow_upload(proxy: Proxy) -> tuple[float, bytes]:
    """The longest pause, in seconds, of a client that sends a byte every 0.05 s, and its answer."""
    ticker = threading.Event()
    sent_at, answer = [], b""
    with suppress(ConnectionError), connect(proxy) as client:
        client.sendall(b"POST /slow HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 50\r\n\r\n")
        for _ in range(50):
            sent_at.append(time.monotonic())
            ticker.wait(0.05)  # the client's own pace, far below the limit: what is tested
            client.sendall(b"x")
        sent_at.append(time.monotonic())
        answer = until_closed(client)
    return max(after - before for before, after in pairwise(sent_at)), answer


def fill(client: socket.socket, data: bytes, most: int = 100_000_000) -> int:
    """Send `data`, over and over, until the peer takes no more; bytes sent."""
    client.settimeout(1)
    rest = memoryview(data)
    sent = 0
    try:
        while sent < most:
            sent += client.send(rest[sent % len(data) :])
    except TimeoutError:
        pass  # the end that is looked for
    return sent


# ── crowds ──────────────────────────────────────────────────────────────────────────────────────────────────
