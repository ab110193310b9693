"""The parser of requests: whole, byte by byte, and with more behind."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_eval_proxy.net.http1_messages import RequestError, RequestParser

Seen = list[tuple[dict[str, Any], bytes]]

GET = b"GET /a%20b?x=1 HTTP/1.1\r\nHost: h\r\nX-Note: one\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"4;a=b\r\n\r\n\r\n\r\n1\r\n!\r\n0\r\nX-Trailer: t\r\n\r\n"
)
UPGRADE = b"POST /u HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nhi"

REQUESTS = {
    "no body": (GET, b"", "GET", "/a b"),
    "a body": (POST, b"hello", "POST", "/"),
    "chunks": (CHUNKED, b"\r\n\r\n!", "POST", "/c"),
    "an offer to upgrade": (UPGRADE, b"hi", "POST", "/u"),
    "empty lines before": (b"\r\n\r\n" + GET, b"", "GET", "/a b"),
    "HTTP/1.0": (b"GET / HTTP/1.0\r\n\r\n", b"", "GET", "/"),
    "absolute form": (b"GET http://h?q HTTP/1.1\r\nHost: h\r\n\r\n", b"", "GET", "/"),
}

REFUSED = {
    "no request": b"nonsense\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
    "two hosts and an offer to upgrade": (
        b"GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"
    ),
    "an offer to upgrade, and no known framing": (
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: identity\r\n\r\n"
    ),
    "CONNECT": b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
    "no target": b"GET http://h#f HTTP/1.1\r\nHost: h\r\n\r\n",
    "a path that is not ASCII": b"GET /\xc3\xa4 HTTP/1.1\r\nHost: h\r\n\r\n",
    "two framings": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a faulty chunk": b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
}


def parsed(pieces: list[bytes]) -> tuple[Seen, RequestParser]:
    """The scope and body of each request in `pieces`; each of those that are ahead begins after the one before."""
    parser = RequestParser(1000, {"scheme": "http"})
    seen: Seen = []
    for piece in pieces:
        parser.feed(piece)
        while parser.complete:
            assert parser.scope is not None
            seen.append((parser.scope, parser.take()))
            parser.begin()
            parser.feed(b"")
    return seen, parser


def by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@pytest.mark.parametrize(("request_", "body", "method", "path"), REQUESTS.values(), ids=REQUESTS)
def test_a_request(request_: bytes, body: bytes, method: str, path: str) -> None:
    for pieces in ([request_], by_byte(request_)):
        ((scope, content),), parser = parsed(pieces)
        assert (content, scope["method"], scope["path"], scope["scheme"]) == (body, method, path, "http")
        assert not {b"upgrade", b"x-trailer"} & {name for name, _ in scope["headers"]}
        assert not parser.waiting


@pytest.mark.parametrize(
    "codings", [b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"]
)
def test_another_transfer_coding_is_not_supported(codings: bytes) -> None:
    """It would not be passed on: who reads the body then would take compressed bytes for it."""
    with pytest.raises(RequestError) as refused:
        parsed([POST + b"POST / HTTP/1.1\r\nHost: h\r\n" + codings + b"\r\n\r\n"])
    assert refused.value.status == 501


def test_the_host_of_an_absolute_target_counts() -> None:
    ((scope, _),), _ = parsed([b"GET http://orders.example:80/?q HTTP/1.1\r\nA: b\r\nHost: refunds.example\r\n\r\n"])
    assert scope["headers"] == [(b"host", b"orders.example:80"), (b"a", b"b")]


@pytest.mark.parametrize("request_", [one[0] for one in REQUESTS.values()], ids=REQUESTS)
def test_further_requests_are_not_parsed_before_their_time(request_: bytes) -> None:
    parser = RequestParser(1000, {})
    parser.feed(request_ + POST + GET[:10])
    assert parser.complete
    assert parser.ahead == POST + GET[:10]
    parser.feed(GET[10:])
    assert parser.ahead == POST + GET


def test_requests_one_after_the_other_are_independent() -> None:
    requests = [one[0] for one in REQUESTS.values() if b"HTTP/1.0" not in one[0]]
    alone = [parsed([request_])[0][0] for request_ in requests]
    for pieces in (requests, [b"".join(requests)], by_byte(b"".join(requests))):
        seen, parser = parsed(pieces)
        assert seen == alone
        assert not parser.ahead


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED)
def test_what_is_refused(request_: bytes) -> None:
    for pieces in ([request_], by_byte(request_), [POST + request_]):
        with pytest.raises(RequestError) as refused:
            parsed(pieces)
        assert (refused.value.status, refused.value.problem) == (400, "bad_request")


@pytest.mark.parametrize(
    "beginning",
    [b"GET / HTTP/1.1\r\nX: ", CHUNKED[:-30], CHUNKED[:-2] + b"X: "],
    ids=["header", "chunk", "trailer"],
)
def test_a_section_without_end(beginning: bytes) -> None:
    with pytest.raises(RequestError) as refused:
        parsed([beginning, *[b"1" * 10] * 200])
    assert refused.value.status in (400, 431)


@pytest.mark.parametrize(
    ("request_", "keep_alive", "expects_continue"),
    [
        (GET, True, False),
        (GET.replace(b"X-Note: one", b"Connection: close"), False, False),
        (GET.replace(b"X-Note: one", b"Expect: 100-Continue"), True, True),
        (GET.replace(b"X-Note: one", b"Expect: 100-continue").replace(b"1.1", b"1.0"), False, False),
        (GET.replace(b"X-Note: one", b"Connection: keep-alive").replace(b"1.1", b"1.0"), False, False),
    ],
)
def test_what_a_client_expects(request_: bytes, keep_alive: bool, expects_continue: bool) -> None:
    parser = RequestParser(1000, {})
    parser.feed(request_)
    assert (parser.keep_alive, parser.expects_continue) == (keep_alive, expects_continue)
