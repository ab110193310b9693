"""Requests as they are parsed, whole, byte by byte and with more behind; responses as h11 reads them."""

from __future__ import annotations

from typing import Any

import h11
import pytest
from a2a_eval_proxy.net.http1_messages import RequestError, RequestParser, ResponseWriter, refusal

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
    [b"GET /", b"GET / HTTP/1.1\r\nX: ", CHUNKED[:-30], CHUNKED[:-2] + b"X: "],
    ids=["target", "header", "chunk", "trailer"],
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


# ── responses, as h11 reads them ────────────────────────────────────────────────────────────────────────────


LENGTH = [(b"X-Note", b"one"), (b"Content-Length", b"8")]
CHUNKS = [(b"X-Note", b"one")]


def written(
    headers: list[tuple[bytes, bytes]], *pieces: bytes, method: str = "GET", version: str = "1.1", status: int = 200
) -> bytes:
    """A response whose body comes in these pieces, of which the last ends it."""
    response = ResponseWriter(method, version, status, headers, keep_alive=version != "1.0")
    sent = b"".join(response.body(piece, more=True) for piece in pieces[:-1])
    return sent + response.body(pieces[-1], more=False)


def read_by_h11(method: str, sent: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("host", "h")]))
    client.send(h11.EndOfMessage())
    client.receive_data(sent)
    client.receive_data(b"")
    response = client.next_event()
    assert isinstance(response, h11.Response)
    body = b""
    while isinstance(event := client.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    return response.status_code, response.headers.raw_items(), body


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [LENGTH, CHUNKS], ids=["length", "chunks"])
@pytest.mark.parametrize("status", [200, 204, 304, 404, 599])
def test_a_response(status: int, headers: list[tuple[bytes, bytes]], method: str, version: str) -> None:
    bodiless = method == "HEAD" or status in (204, 304)
    for pieces in ([b"abc", b"", b"defgh", b""], [b"abcdefgh"], [b"abc", b"defgh"]):
        sent = written(headers, *pieces, method=method, version=version, status=status)
        code, fields, body = read_by_h11(method, sent)
        assert (code, body) == (status, b"" if bodiless else b"abcdefgh")
        assert [item for item in fields if item in headers] == headers
        names = [name.lower() for name, _ in fields]
        assert (b"connection" in names) is (version == "1.0")
        assert (b"transfer-encoding" in names) is (headers is CHUNKS and version == "1.1" and not bodiless)


def test_the_header_comes_with_the_first_bytes_of_the_body() -> None:
    response = ResponseWriter("GET", "1.1", 200, CHUNKS, keep_alive=True)
    assert response.body(b"abc", more=True).startswith(b"HTTP/1.1 200 OK\r\n")
    assert response.head == b""
    assert response.body(b"abc", more=True) == b"3\r\nabc\r\n"


def test_an_application_cannot_frame_in_two_ways_and_may_end_the_connection() -> None:
    headers = [*LENGTH, (b"Transfer-Encoding", b"chunked"), (b"Connection", b"close")]
    response = ResponseWriter("GET", "1.1", 200, headers, keep_alive=True)
    assert not response.keep_alive
    assert response.head == b"HTTP/1.1 200 OK\r\nX-Note: one\r\nContent-Length: 8\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize(
    "headers",
    [[(b"x", b"a\r\nb: c")], [(b"x", b"a\nb: c")], [(b"x", b"a\0")], [(b"x\r\ny", b"a")], [(b"content-length", b"+")]],
)
def test_a_header_that_would_break_the_response(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        ResponseWriter("GET", "1.1", 200, headers, keep_alive=True)


@pytest.mark.parametrize("pieces", [[b"123456789"], [b"1234"], [b"1234", b"56789"]], ids=["long", "short", "later"])
def test_a_body_of_another_length_than_its_header_says(pieces: list[bytes]) -> None:
    with pytest.raises(RuntimeError, match="not the length"):
        written(LENGTH, *pieces)


def test_whether_a_close_would_end_the_body() -> None:
    response = ResponseWriter("GET", "1.0", 200, CHUNKS, keep_alive=False)
    response.body(b"abc", more=True)
    assert response.until_close
    response.body(b"", more=False)
    assert not response.until_close


def test_a_refusal() -> None:
    status, fields, body = read_by_h11("GET", refusal(431, "Too large."))
    assert (status, body) == (431, b"Too large.")
    assert (b"connection", b"close") in fields
