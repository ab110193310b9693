"""What clients do: requests that are ordinary, odd and broken, and ways to send them, read the answer and leave. Pure.

Each shape is a function of the dice, the token and what it may use; the table `SHAPES` names them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from .values import (
    TOKEN_HEADER,
    Close,
    Fate,
    Headers,
    Pause,
    Reading,
    Request,
    Reset,
    Send,
    Step,
    filler,
    hidden_in,
)

HOST = b"proxy.test"
_METHODS_WITH_BODY = (b"POST", b"POST", b"PUT", b"PATCH")


Shape = Callable[[Random, bytes], Request]


# ── shapes ──────────────────────────────────────────────────────────────────────────────────────────────────


def plain(dice: Random, token: bytes) -> Request:
    if dice.random() < 0.4:
        return Request(b"GET", b"/f/%b?n=%d" % (token, dice.randrange(100)), _headers(dice, token))
    return _post(dice, token, dice.choice((0, 2, 100, 4_000, 70_000)))


def _post(dice: Random, token: bytes, size: int) -> Request:
    media_type = dice.choice((b"application/json", b"application/octet-stream", b"text/plain"))
    headers = (*_headers(dice, token), (b"content-type", media_type))
    method = dice.choice(_METHODS_WITH_BODY)
    return Request(
        method, b"/f/%b" % token, headers, filler(token, b"q", size), chunked=dice.random() < 0.2 and size > 0
    )


def _get_with_body(dice: Random, token: bytes) -> Request:
    body = filler(token, b"q", dice.choice((2, 30, 1_000, 5_000)))
    return Request(b"GET", b"/f/%b" % token, _headers(dice, token), body, chunked=dice.random() < 0.3)


def _upgrade(dice: Random, token: bytes) -> Request:
    """What the JDK's HttpClient offers with its first request over plain http."""
    said = plain(dice, token) if dice.random() < 0.3 else _post(dice, token, dice.choice((10, 500, 20_000)))
    offer = (
        (b"connection", b"Upgrade, HTTP2-Settings"),
        (b"http2-settings", b"AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"),
        (b"upgrade", b"h2c"),
    )
    return replace(
        said, hops=offer if dice.random() < 0.8 else ((b"connection", b"upgrade"), (b"upgrade", b"websocket"))
    )


def _connection_list(dice: Random, token: bytes) -> Request:
    said = plain(dice, token)
    names = dice.choice((b"x-hop", b"x-hop, keep-alive", b"keep-alive,x-hop,,x-absent", b"x-hop, x-fuzz-odd"))
    dropped = frozenset({b"x-fuzz-odd"}) if b"x-fuzz-odd" in names else frozenset()
    return replace(said, hops=((b"connection", names), (b"x-hop", token)), dropped=dropped)


def _connection_framing(dice: Random, token: bytes) -> Request:
    """`Connection` names what frames or routes the request."""
    hidden = hidden_in(token)
    inner = b"GET /f/%b HTTP/1.1\r\nhost: evil\r\n\r\n" % hidden if dice.random() < 0.6 else b""
    body = inner or filler(token, b"q", 300)
    names = (
        b"content-length",
        b"Content-Length",
        b"content-length, host",
        b"transfer-encoding",
        b"close, content-length",
    )
    said = Request(
        b"POST",
        b"/f/%b" % token,
        _headers(dice, token),
        body,
        chunked=dice.random() < 0.2,
        hops=((b"connection", dice.choice(names)),),
        fate=Fate.EITHER,
    )
    return replace(said, smuggled=frozenset({hidden}))


def _hidden_request(dice: Random, token: bytes) -> Request:
    """A good request whose body is another one."""
    hidden = hidden_in(token)
    body = b"POST /f/%b HTTP/1.1\r\nhost: evil\r\ncontent-length: 0\r\n\r\n" % hidden
    said = Request(b"POST", b"/f/%b" % token, _headers(dice, token), body, chunked=dice.random() < 0.5)
    return replace(said, smuggled=frozenset({hidden}))


def _ambiguous(dice: Random, token: bytes) -> Request:
    """Two framings, or one that is invalid: the classes of RFC 9112, section 11.2."""
    hidden = hidden_in(token)
    inner = b"GET /f/%b HTTP/1.1\r\nhost: evil\r\n\r\n" % hidden
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(inner), inner)
    framing, payload = dice.choice(
        [
            (((b"content-length", b"4"), (b"transfer-encoding", b"chunked")), chunked),
            (((b"transfer-encoding", b"chunked"), (b"content-length", b"%d" % len(chunked))), chunked),
            (((b"content-length", b"0"), (b"content-length", b"%d" % len(inner))), inner),
            (((b"content-length", b"+%d" % len(inner)),), inner),
            (((b"content-length", b"0x10"),), inner),
            (((b"transfer-encoding", b"xchunked"),), chunked),
            (((b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"identity")), chunked),
            (((b"transfer-encoding ", b"chunked"),), chunked),
            (((b"transfer-encoding", b"chunked"),), b"-1\r\n" + inner),
            (((b"transfer-encoding", b"chunked"),), b"5\r\nabcdeXX0\r\n\r\n" + inner),
            (((b"transfer-encoding", b"chunked"),), b"zz\r\n" + inner),
        ]
    )
    said = Request(
        b"POST", b"/f/%b" % token, _headers(dice, token), framing=framing, payload=payload, fate=Fate.REFUSED
    )
    return replace(said, smuggled=frozenset({hidden}))


def _malformed(dice: Random, token: bytes) -> Request:
    junk = dice.choice(
        [
            b"/f/%b GET HTTP/1.1\r\n\r\n" % token,
            b"GET /f/%b HTTP/1.1\r\nhost: a\r\nno colon\r\n\r\n" % token,
            b"GET /f/%b HTTP/1.1\r\nhost: a\r\nbad\x00name: x\r\n\r\n" % token,
            b"GET /f/%b HTTP/9.9\r\nhost: a\r\n\r\n" % token,
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + token,
            b"PRI * HTTP/2.0\r\n\r\nMS\r\n\r\n",
        ]
    )
    return Request(b"GET", b"/f/%b" % token, (), payload=junk, fate=Fate.REFUSED, framing=())


def _upload(dice: Random, token: bytes) -> Request:
    """Half of them larger than all buffers on the way, so that an agent that does not read holds the client up."""
    size = dice.choice((dice.randrange(300_000, 1_500_000), dice.randrange(5_000_000, 9_000_000)))
    return replace(_post(dice, token, size), chunked=dice.random() < 0.5)


def _bodiless(dice: Random, token: bytes) -> Request:
    method = dice.choice((b"HEAD", b"OPTIONS", b"DELETE"))
    return Request(method, b"/f/%b" % token, _headers(dice, token))


def _old(dice: Random, token: bytes) -> Request:
    said = replace(plain(dice, token), version=b"1.0", chunked=False)
    return replace(said, hops=((b"connection", b"keep-alive"),)) if dice.random() < 0.4 else said


SHAPES: dict[str, Shape] = {
    "get-body": _get_with_body,
    "upgrade": _upgrade,
    "connection-list": _connection_list,
    "connection-framing": _connection_framing,
    "hidden-request": _hidden_request,
    "ambiguous": _ambiguous,
    "malformed": _malformed,
    "upload": _upload,
    "bodiless": _bodiless,
    "http-1.0": _old,
}
"""What a request may be besides plain."""

MANNERS = ("pieces", "leaves", "slow-reader", "pipeline")
"""How it may be sent and its answer be read."""


# ── sending ─────────────────────────────────────────────────────────────────────────────────────────────────


def sent(dice: Random, what: Request, manners: list[str]) -> Request:
    """The request with the steps that send it."""
    head = b"" if what.framing == () and what.payload is not None else _head(what)
    frames = [what.payload] if what.payload is not None else _frames(dice, what)
    steps: list[Step] = _in_pieces(dice, head, frames) if "pieces" in manners else [Send(head + b"".join(frames))]
    if "leaves" in manners:
        steps = _leaving(dice, steps)
    return replace(what, steps=tuple(steps))


def _head(what: Request) -> bytes:
    framing = what.framing
    if framing is None:
        framing = ()
        if what.chunked:
            framing = ((b"transfer-encoding", b"chunked"),)
        elif what.body or what.method in _METHODS_WITH_BODY:
            framing = ((b"content-length", b"%d" % len(what.body)),)
    lines = [b"%b: %b" % item for item in ((b"host", HOST), *what.headers, *what.hops, *framing)]
    return b"\r\n".join([b"%b %b HTTP/%b" % (what.method, what.target, what.version), *lines, b"", b""])


def _frames(dice: Random, what: Request) -> list[bytes]:
    if not what.chunked:
        return [what.body] if what.body else []
    cuts = _cuts(dice, len(what.body), dice.choice((1, 3, 7)))
    chunks = [b"%x\r\n%b\r\n" % (end - start, what.body[start:end]) for start, end in cuts]
    return [*chunks, b"0\r\n\r\n"]


def _in_pieces(dice: Random, head: bytes, frames: list[bytes]) -> list[Step]:
    if dice.random() < 0.5:  # the head alone, then the body in a few pieces
        whole = b"".join(frames)
        pieces = [head, *(whole[start:end] for start, end in _cuts(dice, len(whole), dice.randrange(1, 5)))]
    else:
        whole = head + b"".join(frames)
        count = len(whole) if len(whole) < 300 and dice.random() < 0.3 else dice.randrange(2, 8)
        pieces = [whole[start:end] for start, end in _cuts(dice, len(whole), count)]
    pause = dice.choice((0.0, 0.005, 0.03)) if len(pieces) < 20 else 0.0
    return [step for piece in pieces if piece for step in (Send(piece), Pause(pause))]


def _cuts(dice: Random, size: int, count: int) -> list[tuple[int, int]]:
    """`count` places, at most, that together are `size` bytes."""
    if size == 0:
        return []
    inner = sorted(dice.sample(range(1, size), min(count - 1, size - 1)))
    return list(zip([0, *inner], [*inner, size], strict=True))


def _leaving(dice: Random, steps: list[Step]) -> list[Step]:
    goodbye: Step = Close() if dice.random() < 0.5 else Reset()
    wait = Pause(dice.choice((0.0, 0.01, 0.1, 0.5)))
    if dice.random() < 0.4:  # with the request complete
        return [*steps, wait, goodbye]
    first = steps[0]
    assert isinstance(first, Send)
    if len(steps) > 1 and dice.random() < 0.5:
        return [*steps[: dice.randrange(1, len(steps))], wait, goodbye]
    return [Send(first.data[: dice.randrange(1, len(first.data) + 1)]), wait, goodbye]


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def slow_reading(dice: Random) -> Reading:
    """A client that is slow, then hurries or leaves."""
    leaves = dice.random() < 0.6
    return Reading(
        buffer=dice.choice((4_096, None, None, None)),  # with None, `huge` answers just fill all buffers
        wait_s=dice.choice((0.3, 0.5, 1.2)),
        piece=dice.choice((2_000, 20_000, 150_000)),
        pause_s=dice.choice((0.02, 0.06)),
        slow_pieces=dice.choice((0, 20, 40)),
        leave_after=dice.choice((0, 0, 0, 30_000, 300_000)) if leaves else None,
        reset=dice.random() < 0.5,
    )


def _headers(dice: Random, token: bytes) -> Headers:
    fields = [(TOKEN_HEADER, token), (b"x-fuzz-odd", b"%b %d" % (token, dice.randrange(10**6)))]
    if dice.random() < 0.3:
        fields.append((b"authorization", b"Bearer %b" % token))
    if dice.random() < 0.1:
        fields.append((b"x-fuzz-long", token * dice.choice((10, 500))))
    return tuple(fields)
