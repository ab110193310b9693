"""The bytes of responses, as h11 reads them."""

from __future__ import annotations

import h11
import pytest
from a2a_eval_proxy.net.http1_messages import ResponseWriter, refusal

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
