"""The client of the forwarding path against real sockets that behave, misbehave and go away."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.net import http_client
from a2a_eval_proxy.net.http_client import (
    HttpClient,
    SentRequest,
    UpstreamCutError,
    UpstreamError,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
)
from support.certificates import Authority
from support.patience import PATIENCE_S

pytestmark = pytest.mark.timeout(method="thread")  # uvloop does not wake up for a signal

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
HOST = [(b"host", b"agent")]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass
class Origin:
    """A server that hands each connection to a coroutine; notes how many came."""

    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)
    """Heads, as received, and what was read besides."""
    written: int = 0
    """How many pieces the other side, or its buffers, took."""

    async def head(self, reader: Reader) -> bytes:
        """The next request's head."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head)
        return head


Behaviour = Callable[[Origin, Reader, Writer], Awaitable[None]]


@asynccontextmanager
async def origin(*behaviours: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncIterator[Origin]:
    """Each connection has its behaviour, and those after them that of the last."""
    it = Origin()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: Reader, writer: Writer) -> None:
        it.connections += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await behaviours[min(it.connections, len(behaviours)) - 1](it, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client left, or the test is over
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    it.port = server.sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


HEAD, REST = object(), object()


def scripted(*steps: Any) -> Behaviour:
    """Read a HEAD, so many bytes or the REST, write bytes, wait for an event, call something; then close."""

    async def behave(it: Origin, reader: Reader, writer: Writer) -> None:
        for step in steps:
            if step is HEAD:
                await it.head(reader)
            elif step is REST:
                it.requests.append(await reader.read())
            elif isinstance(step, int):
                it.requests.append(await reader.readexactly(step))
            elif isinstance(step, asyncio.Event):
                await step.wait()
            elif callable(step):
                step()
            else:
                writer.write(step)
                await writer.drain()
                await asyncio.sleep(0)
                it.written += 1

    return behave


def answering(*answers: bytes) -> Behaviour:
    """Answers the requests of a connection, one after the other; then closes it."""
    return scripted(*(step for answer in answers for step in (HEAD, answer)))


GOING = scripted(HEAD, OK, HEAD)  # and goes, without a word


async def always_ok(it: Origin, reader: Reader, writer: Writer) -> None:
    while True:
        await it.head(reader)
        writer.write(OK)


@asynccontextmanager
async def client_of(it: Origin, **options: Any) -> AsyncIterator[HttpClient]:
    client = HttpClient("127.0.0.1", it.port, **options)
    try:
        yield client
    finally:
        client.close()


async def body_of(response: SentRequest) -> bytes:
    pieces = []
    while piece := await response.read():
        pieces.append(piece)
    response.close()
    return b"".join(pieces)


async def get(client: HttpClient, target: bytes = b"/") -> bytes:
    return await body_of(await client.request(b"GET", target, HOST))


async def let_everything_run() -> None:
    """Many rounds of the event loop: whatever needs no outside event has happened then."""
    for _ in range(300):
        await asyncio.sleep(0)


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_request_goes_out_byte_for_byte() -> None:
    async with origin(scripted(HEAD, 4, OK)) as it, client_of(it) as client:
        headers = [*HOST, (b"X-Odd", b" \xff "), (b"b", b"1"), (b"a", b"2"), (b"b", b"3")]
        await body_of(await client.request(b"POST", b"/a%2Fb//?x=+%20", headers, b"\x00\r\n\xff"))
        assert b"".join(it.requests) == (
            b"POST /a%2Fb//?x=+%20 HTTP/1.1\r\nhost: agent\r\nX-Odd:  \xff \r\n"
            b"b: 1\r\na: 2\r\nb: 3\r\ncontent-length: 4\r\n\r\n\x00\r\n\xff"
        )


@pytest.mark.parametrize(
    ("length", "received"),
    [
        (11, [b"one", b"two", b"three"]),
        (None, [b"3\r\none\r\n", b"3\r\ntwo\r\n", b"5\r\nthree\r\n", b"0\r\n\r\n"]),
    ],
)
async def test_an_upload_goes_out_piece_by_piece(length: int | None, received: list[bytes]) -> None:
    """The next piece is asked for only once the one before has arrived."""
    arrived = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"", b"two", b"three"):
            yield piece
            if piece:  # an empty one would end a body in chunks
                await arrived.wait()
                arrived.clear()

    steps = [step for one in received for step in (len(one), arrived.set)]
    async with origin(scripted(HEAD, *steps, OK)) as it, client_of(it) as client:
        assert await body_of(await client.request(b"POST", b"/", HOST, pieces(), length=length)) == b"ok"
        assert it.requests[1:] == received
        assert (b"transfer-encoding: chunked" in it.requests[0]) == (length is None)


async def test_an_upload_waits_for_a_slow_agent() -> None:
    go_on = asyncio.Event()
    asked_for = 0
    total = 200

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal asked_for
        for _ in range(total):
            asked_for += 1
            yield bytes(256 * 1024)

    async with origin(scripted(HEAD, go_on, total * 256 * 1024, OK)) as it, client_of(it) as client:
        answer = asyncio.create_task(client.request(b"POST", b"/", HOST, pieces(), length=total * 256 * 1024))
        await let_everything_run()
        assert asked_for < total / 2
        go_on.set()
        assert await body_of(await answer) == b"ok"
        assert asked_for == total


@pytest.mark.parametrize(
    ("problem", "expected"),
    [(ConnectionResetError("it left"), UpstreamCutError), (LookupError("it left"), LookupError)],
)
async def test_a_sender_that_stops(problem: Exception, expected: type[Exception]) -> None:
    gone = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"some"
        raise problem

    async with origin(scripted(HEAD, REST, gone.set)) as it, client_of(it) as client:
        with pytest.raises(expected, match="it left"):
            await client.request(b"POST", b"/", HOST, pieces())
        await gone.wait()
        assert b"some" in it.requests[1]


# ── responses ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_response_comes_as_it_is() -> None:
    """Its header and a body that is larger than any header may be, in one piece. Trailers are no headers (RFC 9110,
    section 6.5.1): whoever sent them cannot slip headers in.
    """
    head = (
        b"HTTP/1.1 201 Made\r\nX-B:  odd \xff\r\nset-cookie: a\r\nSet-Cookie: b\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    body = b"1388\r\n" + b"x" * 5_000 + b"\r\n0\r\nset-cookie: late\r\n\r\n"
    async with origin(answering(head + body)) as it, client_of(it, max_header_bytes=1024) as client:
        response = await client.request(b"GET", b"/", HOST)
        assert response.status == 201
        assert response.headers == [
            (b"X-B", b"odd \xff"),
            (b"set-cookie", b"a"),
            (b"Set-Cookie", b"b"),
            (b"Transfer-Encoding", b"chunked"),
        ]
        headers = list(response.headers)
        assert (response.fields[b"set-cookie"], b"etag" in response.fields) == (b"b", False)
        assert await body_of(response) == b"x" * 5_000
        assert response.headers == headers


FRAMED = {
    "length": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome body",
    "chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4;x=1\r\nsome\r\n5\r\n body\r\n0\r\n\r\n",
    "until close": b"HTTP/1.1 200 OK\r\n\r\nsome body",
    "until close, HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\nsome body",
    "interim responses": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome body",
}


async def test_a_slow_reader_slows_the_agent_down() -> None:
    total = 1024
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (total * 64 * 1024)

    async with origin(scripted(HEAD, head, *[bytes(64 * 1024)] * total)) as it, client_of(it) as client:
        response = await client.request(b"GET", b"/", HOST)
        first = await response.read()
        for _ in range(10):
            await let_everything_run()
        assert it.written < total / 2
        assert len(first) + len(await body_of(response)) == total * 64 * 1024
        assert it.written == total + 1


# ── cuts ────────────────────────────────────────────────────────────────────────────────────────────────────

CUT = {
    "inside a length": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome",
    "inside a chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nsome",
    "between chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nsome\r\n",
    "before the last CRLF": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\n",
}


@pytest.mark.parametrize("place", CUT)
async def test_a_cut_is_a_cut_and_what_came_before_is_not_lost(place: str) -> None:
    async with origin(answering(CUT[place])) as it, client_of(it) as client:
        response = await client.request(b"GET", b"/", HOST)
        assert await response.read() == b"some"
        with pytest.raises(UpstreamCutError, match="inside its response"):
            await response.read()
        response.close()


async def test_a_reset_is_no_clean_end_of_a_body_until_close() -> None:
    read_first = asyncio.Event()

    async def behave(it: Origin, reader: Reader, writer: Writer) -> None:
        await it.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nsome")
        await writer.drain()
        await read_first.wait()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset

    async with origin(behave) as it, client_of(it) as client:
        response = await client.request(b"GET", b"/", HOST)
        assert await response.read() == b"some"
        read_first.set()
        with pytest.raises(UpstreamCutError):
            await response.read()


async def test_a_failure_of_tls_after_the_handshake_is_said(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def behave(it: Origin, reader: Reader, writer: Writer) -> None:
        await it.head(reader)
        os.write(writer.get_extra_info("socket").fileno(), b"no record of TLS")
        await reader.read()

    async with origin(behave, tls=authority.server()) as it, client_of(it, tls=authority.client()) as client:
        with pytest.raises(UpstreamCutError, match="before answering: TLS failed: "):
            await get(client)


# ── keep-alive ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_answer_before_the_upload_is_complete() -> None:
    """Its connection is not used again."""
    cancelled = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"some"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with origin(always_ok) as it, client_of(it) as client:
        assert await body_of(await client.request(b"POST", b"/", HOST, pieces())) == b"ok"
        await cancelled.wait()
        assert await get(client) == b"ok"
        assert it.connections == 2


async def test_a_connection_that_idled_too_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent may be closing it right now, and a request sent on it would be lost."""
    monkeypatch.setattr(http_client, "KEEPALIVE_S", 0.0)
    async with origin(always_ok) as it, client_of(it) as client:
        assert [await get(client) for _ in range(2)] == [b"ok", b"ok"]
        assert it.connections == 2


async def test_a_response_given_up_costs_its_connection() -> None:
    closed = asyncio.Event()

    async with origin(scripted(HEAD, CUT["inside a length"], REST, closed.set)) as it, client_of(it) as client:
        response = await client.request(b"GET", b"/", HOST)
        assert await response.read() == b"some"
        response.close()
        response.close()
        await closed.wait()


@pytest.mark.parametrize(("method", "upload"), [(b"GET", False), (b"POST", False), (b"GET", True)])
async def test_only_a_safe_request_lost_on_a_closing_connection_is_sent_again(method: bytes, upload: bool) -> None:
    """An upload is not: the dead connection took what the iterator had."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"12345"

    repeated = method == b"GET" and not upload
    async with origin(GOING) as it, client_of(it) as client:
        assert await get(client) == b"ok"
        with nullcontext() if repeated else pytest.raises(UpstreamCutError):
            body, length = (pieces(), 5) if upload else (b"", None)
            assert await body_of(await client.request(method, b"/again", HOST, body, length=length)) == b"ok"
        assert [head.split()[1] for head in it.requests] == [b"/", *[b"/again"] * (1 + repeated)]


async def test_a_safe_request_is_repeated_once_however_many_connections_are_idle() -> None:
    together = asyncio.Barrier(5)

    async def behave(it: Origin, reader: Reader, writer: Writer) -> None:
        await it.head(reader)
        if len(it.requests) <= 5:
            await together.wait()
            writer.write(OK)
            await it.head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent")  # and closes

    async with origin(behave) as it, client_of(it) as client:
        await asyncio.gather(*(get(client) for _ in range(5)))
        with pytest.raises(UpstreamCutError):
            await get(client)
        assert (len(it.requests), it.connections) == (7, 6)


async def test_closing_the_client_closes_what_is_idle() -> None:
    closed = asyncio.Event()

    async with origin(scripted(HEAD, OK, REST, closed.set)) as it, client_of(it) as client:
        assert await get(client) == b"ok"
        client.close()
        await closed.wait()


# ── refusal, silence, nonsense ──────────────────────────────────────────────────────────────────────────────


async def test_a_connection_that_is_never_accepted() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:  # fill the queue of those not yet accepted
            one.setblocking(False)
            one.connect_ex(address)
        client = HttpClient("127.0.0.1", address[1], connect_timeout_s=0.05)
        with pytest.raises(UpstreamTimeoutError, match=r"no connection within 0\.05 s"):
            await client.request(b"GET", b"/", HOST)
        for one in waiting:
            one.close()


OK_LATER = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK_LATER + b"transfer-encoding: chunked\r\n\r\n"


NONE = {
    b"SSH-2.0-OpenSSH_9.6\r\n": "not HTTP",
    OK_LATER + b"no colon here\r\n\r\n": "not HTTP",
    OK_LATER + b"content-length: many\r\n\r\n": "not HTTP",
    OK_LATER + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok": "not HTTP",
    OK_LATER + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok": "not HTTP",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n": "not HTTP",
    b"\x16\x03\x01\x02\x00": "not HTTP",
    CHUNKED + b"4\r\nsome\r\nZZ\r\n": "not HTTP",
    b"HTTP/1.1 099 Odd\r\ncontent-length: 2\r\n\r\nok" + OK: "the status 099; expected 100 to 599",
    b"HTTP/1.1 600 Odd\r\ncontent-length: 2\r\n\r\nok" + OK: "the status 600; expected 100 to 599",
    # its header goes no further than this hop: the client would get a body that it cannot read
    OK_LATER + b"transfer-encoding: gzip\r\n\r\nsome": "transfer coding 'gzip'",
    OK_LATER + b"a: %b\r\ncontent-length: 0\r\n\r\n" % (b"x" * 1_300): "header exceeds 1024 bytes",
    OK_LATER + b"a: x\r\n" * 700 + b"content-length: 0\r\n\r\n": "header exceeds 1024 bytes",
    CHUNKED + b"2\r\nok\r\n0\r\n" + b"a: x\r\n" * 1_000 + b"\r\n": "trailer exceeds 1024 bytes",
}
WITHOUT_A_BODY = [
    (b"HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n"),
    (b"HEAD", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
    (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
    (b"GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5000\r\netag: x\r\n\r\n"),
    (b"GET", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
]
# Answers that are read well, and how many connections two requests with such an answer take.
IN_DOUBT = [
    (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", 2),
    (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", 2),
    (b"HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nok", 1),
    # RFC 9112, section 6.1: chunks in HTTP/1.0 count as faulty framing
    (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 2),
    (OK + b"HTTP/1.1 500 Oops\r\ncontent-length: 3\r\n\r\nbad", 2),
    # who may send a body where there is none is not trusted
    (b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", 2),
    (b"HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n", 2),
    (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", 2),
]
Exchange = tuple[Behaviour, dict[str, Any], list[tuple[bytes, bytes | tuple[type[Exception], str]]], int]
# What an agent does on each connection, options of the client, its requests with what comes of them, and how many
# connections there were.
EXCHANGES: dict[str, Exchange] = {
    **{
        f"byte by byte, {framing}": (scripted(HEAD, *(bytes([one]) for one in answer)), {}, [(b"GET", b"some body")], 1)
        for framing, answer in FRAMED.items()
    },
    **{
        f"no body after {method!r}: {answer!r}": (scripted(HEAD, answer, REST), {}, [(method, b"")], 1)
        for method, answer in WITHOUT_A_BODY
    },
    **{
        f"a cut before the answer, {len(beginning)}": (
            answering(beginning),
            {},
            [(b"POST", (UpstreamCutError, "before answering"))],
            1,
        )
        for beginning in (b"", b"HTTP/1.1 200 OK\r\ncontent-le", b"HTTP/1.1 100 Continue\r\n\r\n")
    },
    **{
        f"at once, {framing}": (answering(answer), {}, [(b"GET", b"some body")], 1)
        for framing, answer in FRAMED.items()
    },
    "words that nobody asked for end a connection": (scripted(HEAD, OK, OK, REST), {}, [(b"GET", b"ok")] * 2, 2),
    "a connection is used again": (always_ok, {}, [(b"GET", b"ok")] * 5, 1),
    "an idle connection that the agent closed is not used": (answering(OK), {}, [(b"POST", b"ok")] * 3, 3),
    **{
        f"a connection in doubt is not used again: {answer!r}": (
            answering(answer, answer),
            {},
            [(b"GET", b"ok" if b" 200 " in answer else b"")] * 2,
            connections,
        )
        for answer, connections in IN_DOUBT
    },
    **{
        f"an agent that does not answer in time, {len(beginning)}": (
            scripted(HEAD, beginning, REST),
            {"response_timeout_s": 0.05},
            [(b"GET", (UpstreamTimeoutError, r"silent for 0\.05 s"))],
            1,
        )
        for beginning in (b"", OK_LATER, OK_LATER + b"content-length: 9\r\n\r\nsome")
    },
    **{
        f"an answer that is none: {answer[:40]!r}, {len(answer)} bytes": (
            answering(answer),
            {"max_header_bytes": 1024},
            [(b"GET", (UpstreamError, problem))],
            1,
        )
        for answer, problem in NONE.items()
    },
}


@pytest.mark.parametrize("name", EXCHANGES)
async def test_an_exchange(name: str) -> None:
    behaviour, options, requests, connections = EXCHANGES[name]
    async with origin(behaviour) as it, client_of(it, **options) as client:
        for method, expected in requests:
            if isinstance(expected, bytes):
                assert await body_of(await client.request(method, b"/", HOST)) == expected
            else:
                with pytest.raises(expected[0], match=expected[1]):
                    await body_of(await client.request(method, b"/", HOST))
            await let_everything_run()
        assert it.connections == connections


# ── how many at once ────────────────────────────────────────────────────────────────────────────────────────


async def test_requests_beyond_the_limit_wait_their_turn() -> None:
    async with origin(always_ok) as it, client_of(it, max_connections=2) as client:
        busy = [await client.request(b"GET", b"/busy", HOST) for _ in range(2)]
        waiting = [asyncio.create_task(get(client, b"/%d" % number)) for number in range(3)]
        await let_everything_run()
        assert not any(task.done() for task in waiting)
        assert it.connections == 2
        for response in busy:
            await body_of(response)
        assert await asyncio.gather(*waiting) == [b"ok"] * 3
        assert sorted(head.split()[1] for head in it.requests[2:]) == [b"/0", b"/1", b"/2"]


async def test_a_failed_connection_gives_its_place_back(port: int) -> None:
    client = HttpClient("127.0.0.1", port, max_connections=1)
    for _ in range(3):
        with pytest.raises(UpstreamUnreachableError, match=r"(?i)connect"):
            await client.request(b"GET", b"/", HOST)


@pytest.mark.parametrize("rounds", range(12))
async def test_a_request_cancelled_at_any_moment_leaves_the_limit_as_it_was(rounds: int) -> None:
    """While it waits for a place, for the connection, for the answer: no place is lost, and none made up."""
    async with origin(always_ok) as it, client_of(it, max_connections=1) as client:
        for _ in range(3):
            task = asyncio.create_task(get(client))
            for _ in range(rounds):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await let_everything_run()
        busy = await client.request(b"GET", b"/", HOST)
        other = asyncio.create_task(get(client))
        await let_everything_run()
        assert not other.done()
        assert await body_of(busy) == b"ok"
        assert await other == b"ok"


# ── one owner ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_handle_kept_too_long_reaches_nobody_elses_exchange() -> None:
    """Its body read to the end, an exchange has no connection any more: to close it again changes nothing."""
    go_on = asyncio.Event()

    async with asyncio.timeout(PATIENCE_S), origin(scripted(HEAD, OK, HEAD, go_on, OK)) as it, client_of(it) as client:
        first = await client.request(b"GET", b"/first", HOST)
        assert [await first.read(), await first.read()] == [b"ok", b""]
        second = asyncio.create_task(client.request(b"POST", b"/second", HOST))
        while len(it.requests) < 2:
            await asyncio.sleep(0)
        first.close()
        assert await first.read() == b""
        go_on.set()
        assert await body_of(await second) == b"ok"
        assert it.connections == 1


async def test_a_whole_response_that_nobody_read_costs_its_connection() -> None:
    """While it waits, reading is paused: whoever got the connection would never hear of the answer."""
    size = 400_000
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size)

    async with origin(answering(answer, answer)) as it, client_of(it) as client:
        for read_some in (False, True, False):
            response = await client.request(b"GET", b"/", HOST)
            if read_some:
                await response.read()
            await let_everything_run()
            response.close()
            async with asyncio.timeout(PATIENCE_S):
                assert len(await get(client)) == size


# ── framing ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "body", "framing"),
    [
        (b"POST", b"12345", [b"content-length: 5"]),
        (b"GET", b"12345", [b"content-length: 5"]),
        (b"POST", b"", [b"content-length: 0"]),
        (b"GET", b"", []),
        (b"DELETE", b"", []),
    ],
)
async def test_the_body_frames_a_request_and_no_header_does(method: bytes, body: bytes, framing: list[bytes]) -> None:
    headers = [*HOST, (b"content-length", b"100"), (b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"7")]
    async with origin(always_ok) as it, client_of(it) as client:
        await body_of(await client.request(method, b"/", headers, body))
        lines = it.requests[0].lower().split(b"\r\n")
        assert [line for line in lines if line.startswith((b"content-length", b"transfer-encoding"))] == framing


@pytest.mark.parametrize("length", [4, 6, 0])
async def test_a_body_of_another_length_than_declared_breaks_the_connection(length: int) -> None:
    seen = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"123"
        yield b"45"

    async with origin(scripted(REST, seen.set)) as it, client_of(it) as client:
        with pytest.raises(UpstreamError, match=f"declare|{length} bytes"):
            await client.request(b"POST", b"/", HOST, pieces(), length=length)
        await seen.wait()
        body = it.requests[0].partition(b"\r\n\r\n")[2]
        assert len(body) <= length


@pytest.mark.parametrize("value", [b"a\r\nx: y", b"a\nb", b"a\rb", b"a\0b"])
async def test_a_line_break_in_a_header_never_leaves(value: bytes) -> None:
    async with origin(always_ok) as it, client_of(it) as client:
        with pytest.raises(UpstreamError, match="line break"):
            await client.request(b"GET", b"/", [*HOST, (b"x", value)])
        assert it.requests == []


# ── in doubt, not used again ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stray", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray", b"x"])
async def test_what_the_loop_has_not_seen_yet_is_seen_before_a_connection_is_used_again(stray: bytes) -> None:
    """The agent closes, or sends something, while the event loop is at other work; then comes a POST."""
    agents: list[socket.socket] = []

    async def behave(it: Origin, reader: Reader, writer: Writer) -> None:
        agents.append(socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())))
        await always_ok(it, reader, writer)

    async with origin(behave) as it, client_of(it) as client:
        assert await get(client) == b"ok"
        with agents.pop() as agent:  # written to past its event loop, which learns of nothing
            if stray:
                agent.sendall(stray)
            else:
                agent.shutdown(socket.SHUT_RDWR)
        assert await body_of(await client.request(b"POST", b"/", HOST, b"{}")) == b"ok"
        assert it.connections == 2
        agents.pop().close()


@pytest.mark.parametrize(
    "beginning", [OK_LATER + b"a: ", CHUNKED + b"0\r\nx: ", CHUNKED + b"2\r\nok\r\n0\r\nx: ", CHUNKED + b"2;"]
)
async def test_a_line_without_an_end_is_not_collected(beginning: bytes) -> None:
    flood = scripted(HEAD, beginning, *[b"x" * 65_536] * 256)
    async with origin(flood) as it, client_of(it, max_header_bytes=1024) as client:
        with pytest.raises(UpstreamError, match="exceeds 1024 bytes"):
            await get(client)
    assert it.written < 256


async def test_a_client_that_takes_its_time_is_no_silence_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent has nothing to say while it waits for the rest of the request."""
    slow = asyncio.Event()
    loop = asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"some"
        await slow.wait()
        yield b"more"

    async with origin(scripted(HEAD, 8, OK)) as it, client_of(it, response_timeout_s=5) as client:
        answer = asyncio.create_task(client.request(b"POST", b"/", HOST, pieces(), length=8))
        for _ in range(4):
            await let_everything_run()
            now += 6
        slow.set()
        assert await body_of(await answer) == b"ok"
