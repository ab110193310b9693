"""Requests whose header repeats an earlier one of their connection arrive as they would on a new connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from a2a_eval_proxy.net.cached_head import KEPT, CachedHead
from a2a_eval_proxy.net.http_server import HttpServer
from hypothesis import example, given
from hypothesis import strategies as st
from support.patience import PATIENCE_S

HEAD = b"POST /a%%20b?x=1 HTTP/1.1\r\nHost: p\r\nContent-Length: %s\r\nX-Note: one\r\n\r\n"


def request(body: bytes = b"hello", head: bytes = HEAD, length: bytes = b"") -> bytes:
    return head % (length or b"%d" % len(body)) + body


class Seen:
    """The application of the server: notes what it gets."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, Any], bytes]] = []
        self.kept: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        extensions = scope["extensions"]
        self.kept.append(extensions[KEPT])
        rest = {key: value for key, value in scope.items() if key not in ("extensions", "client", "server")}
        self.requests.append((rest, body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


@pytest.fixture
async def seen() -> Seen:
    return Seen()


@pytest.fixture
async def port(seen: Seen) -> AsyncIterator[int]:
    server = HttpServer(seen, "127.0.0.1:0", shutdown_timeout_s=1)
    await server.start()
    yield int(server.url.rpartition(":")[2])
    await server.stop()


async def sent(port: int, *requests: tuple[bytes, ...]) -> list[bytes]:
    """Send each request in its pieces, after the response to the one before; returns the status lines."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    async with asyncio.timeout(PATIENCE_S):
        for pieces in requests:
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            try:
                answers.append((await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0])
            except asyncio.IncompleteReadError:
                answers.append(b"")
    writer.close()
    return answers


FOLLOWING = {
    "the same": (request(),),
    "another length": (request(b"x" * 12),),
    "a longer length": (request(b"y" * 70_000),),
    "no body": (request(b""),),
    "zeros before the length": (request(b"hello", length=b"005"),),
    "a sign before the length": (request(b"hello", length=b"+5"),),
    "in pieces": (request()[:30], request()[30:-2], request()[-2:]),
    "header first": (request()[:-5], b"hello"),
    "another value": (request(head=HEAD.replace(b"one", b"two")),),
    "another target": (request(head=HEAD.replace(b"x=1", b"x=2")),),
    "another order": (request(head=HEAD.replace(b"Host: p\r\n", b"").replace(b"\r\n\r\n", b"\r\nHost: p\r\n\r\n")),),
    "one more field": (request(head=HEAD.replace(b"\r\n\r\n", b"\r\nX-More: 1\r\n\r\n")),),
    "a second host": (request(head=HEAD.replace(b"\r\n\r\n", b"\r\nHost: q\r\n\r\n")),),
    "a second length": (request(head=HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n")),),
    "chunks": (
        HEAD.replace(b"Content-Length: %s", b"Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\nX-Note: two\r\n\r\n",
    ),
    "it closes": (request(head=HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")),),
    "HTTP/1.0": (request(head=HEAD.replace(b"HTTP/1.1", b"HTTP/1.0")),),
    "junk": (b"junk\r\n\r\n",),
}


@pytest.mark.parametrize("following", FOLLOWING.values(), ids=FOLLOWING)
async def test_a_request_after_others_arrives_as_on_a_new_connection(
    port: int, seen: Seen, following: tuple[bytes, ...]
) -> None:
    alone = await sent(port, following)
    expected = seen.requests.copy()
    seen.requests.clear()
    first = (request(b"first"),)
    answers = await sent(port, first, first, following)
    assert answers[2:] == alone
    assert seen.requests[2:] == expected


async def test_repeated_headers_share_what_is_derived_from_them(port: int, seen: Seen) -> None:
    other = request(head=HEAD.replace(b"one", b"two"))
    await sent(port, (request(),), (request(b"longer body"),), (other,), (other,), (request(),))
    first, repeated, second, again, back = seen.kept
    assert first is repeated
    assert second is again
    assert all(kept is not first for kept in (second, back))


async def test_pipelined_requests_with_one_header_arrive_in_order(port: int, seen: Seen) -> None:
    await sent(port, (request(b"1"),), (request(b"22") + request(b"333") + request(b"4444"),), ())
    assert [body for _, body in seen.requests] == [b"1", b"22", b"333", b"4444"]


async def test_an_expectation_is_not_taken_over(port: int, seen: Seen) -> None:
    expecting = request(head=HEAD.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
    answers = await sent(port, (request(),), (expecting[:-5],), (b"hello",), (request(),))
    assert answers == [b"HTTP/1.1 200 OK", b"HTTP/1.1 100 Continue", b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK"]
    assert [b"expect" in dict(scope["headers"]) for scope, _ in seen.requests] == [False, True, False]


HEADERS = [(b"host", b"p"), (b"content-length", b"5"), (b"x-note", b"one")]
KNOWN = CachedHead.of(HEAD % b"5", 5, {"headers": HEADERS}, {})


@given(st.binary(max_size=30), st.integers(0, len(HEAD) + 5), st.integers(0, 5))
@example(b"", 0, 0)
def test_only_the_digits_of_the_length_may_differ(inserted: bytes, position: int, removed: int) -> None:
    whole = request()
    changed = whole[:position] + inserted + whole[position + removed :]
    assert KNOWN is not None
    found = KNOWN.repeated(changed)
    if found is None:
        assert changed != whole
        return
    scope, body = found
    digits = dict(scope["headers"])[b"content-length"]
    assert changed == HEAD % digits + body
    assert int(digits) == len(body)
    assert [item for item in scope["headers"] if item[0] != b"content-length"] == [HEADERS[0], HEADERS[2]]


@pytest.mark.parametrize(
    ("head", "length"),
    [
        (HEAD % b"5", 4),  # a part of the body arrived with the header
        (HEAD.replace(b"Content-Length", b"X-Length") % b"5", 5),
        (HEAD.replace(b"one", b"x" * 5_000) % b"5", 5),
    ],
)
def test_other_headers_are_not_remembered(head: bytes, length: int) -> None:
    assert CachedHead.of(head, length, {"headers": HEADERS}, {}) is None
