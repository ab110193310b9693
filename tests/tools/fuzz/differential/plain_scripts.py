"""Exchanges over HTTP that are no operations of A2A, and are valid however odd. Pure."""

from __future__ import annotations

from random import Random

from ..values import filler
from .http1 import RESET, cut
from .script import AUTHORITY, TOKEN, AnyStep, Break, Data, End, Exchange, Fields, Head, Interim, Side

_METHODS = (*[b"GET"] * 4, *[b"POST"] * 6, b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"HEAD", b"PROPFIND", b"REPORT")
_TARGETS = (
    b"/f/%b",
    b"/f/%b?",
    b"/f/%b?a=1&a=2&b",
    b"//f//%b//",
    b"/f/../%b/./x",
    b"/f/%%2e%%2E/%b;p=1",
    b"/%%00%%ff/%b?%%00=%%zz",
    b"/f/%b?q=/a?b:@!$'()*,;[]|`{}",
    b"/f/%b/" + b"long/" * 400,
)
_NAMES = (b"X-Odd", b"x_under", b"X.Dot", b"!#$%&'*+-.^_`|~", b"A", b"Last-Event-ID", b"Idempotency-Key")
_VALUES = (b"", b"a", b"a, b ,c", b"tab\tinside", b"\xe4\xff\x80", b'q="\\""', b"v" * 3_000, b'(comment) "; x', b",,")
_MEDIA_TYPES = (
    b"application/octet-stream",
    b"text/plain; charset=utf-8",
    b"text/html",
    b"application/x-unknown",
    b"application/xml",
    b"image/png",
    b"multipart/mixed; boundary=b",
    b"garbage",
    b"",
)
_HOPS: tuple[Fields, ...] = (
    ((b"Connection", b"x-hop, keep-alive"), (b"X-Hop", b"1"), (b"Keep-Alive", b"timeout=5")),
    ((b"Connection", b"X-Odd"),),
    ((b"Connection", b"content-type, authorization"),),
    ((b"TE", b"trailers, deflate;q=0.5"), (b"Connection", b"TE")),
    ((b"Proxy-Connection", b"keep-alive"),),
    ((b"Connection", b"Upgrade, HTTP2-Settings"), (b"Upgrade", b"h2c"), (b"HTTP2-Settings", b"AAMAAABk")),
    ((b"Upgrade", b"websocket"), (b"Connection", b"upgrade")),
    ((b"Trailer", b"X-Sum"),),
)
_CREDENTIALS: Fields = (
    (b"Authorization", b"Bearer t"),
    (b"Cookie", b"a=b; c=d"),
    (b"Cookie", b"e=f"),
    (b"Accept-Encoding", b"br, gzip;q=0.5, zstd"),
    (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    (b"tracestate", b"a=1,b=2"),
    (b"A2A-Eval-Case", b"case"),
    (b"A2A-Version", b"9.9"),
    (b"A2A-Extensions", b"https://other.example/x, https://other.example/y"),
    (b"Via", b"1.1 before"),
    (b"Max-Forwards", b"0"),
    (b"Origin", b"https://page.example"),
    (b"Range", b"bytes=0-3"),
    (b"If-None-Match", b'W/"1", "2"'),
)
_STATUSES = (
    *[b"200"] * 6,
    b"201",
    b"202",
    b"206",
    b"226",
    b"301",
    b"400",
    b"401",
    b"404",
    b"418",
    b"429",
    b"500",
    b"503",
    b"599",
)
_RESPONSE_FIELDS: Fields = (
    (b"Set-Cookie", b"a=1; Path=/"),
    (b"Set-Cookie", b"b=2; HttpOnly, x"),
    (b"sEt-CoOkIe", b"c=3"),
    (b"WWW-Authenticate", b'Basic realm="a"'),
    (b"WWW-Authenticate", b"Bearer"),
    (b"Date", b"Thu, 01 Jan 1970 00:00:00 GMT"),
    (b"Server", b"odd/1"),
    (b"Via", b"1.1 inner"),
    (b"ETag", b'"x"'),
    (b"Cache-Control", b"no-store"),
    (b"Content-Digest", b"sha-256=:AA==:"),
    (b"Retry-After", b"1"),
    (b"Location", b"/relative/path"),
    (b"Location", b"http://elsewhere.example/x"),
    (b"A2A-Extensions", b"https://other.example/x"),
    (b"Vary", b"*"),
)


def token_field(dice: Random, token: bytes) -> Fields:
    return ((dice.choice((TOKEN, b"X-Fuzz-Token")), token),)


def plain(dice: Random, token: bytes, *, pipelined: bool = False) -> Exchange:
    """`pipelined`: nothing in it waits for the agent before the request is sent."""
    method = dice.choice(_METHODS)
    body = filler(token, b"q", dice.choice((0, 1, 30, 4_000, 70_000))) if dice.random() < 0.6 else b""
    if method == b"POST" and dice.random() < 0.3:
        body = dice.choice((b"{", b"[1,", b'{"jsonrpc": "2.0"', b'{"a": NaN}', b"\xef\xbb\xbf{}", b"null")) + body
    head, request = _request(dice, token, method, body, in_steps=not pipelined)
    steps = [head, *request, *_response(dice, token, method, closes=not pipelined)]
    if not pipelined and dice.random() < 0.08:
        steps = _left(dice, steps)
    return Exchange(token, "plain", tuple(steps))


def _request(dice: Random, token: bytes, method: bytes, body: bytes, *, in_steps: bool) -> tuple[Head, list[AnyStep]]:
    fields = [(b"Host", AUTHORITY), *token_field(dice, token)]
    fields += [(dice.choice(_NAMES), dice.choice(_VALUES)) for _ in range(dice.choice((0, 0, 1, 5)))]
    fields += dice.sample(_CREDENTIALS, dice.choice((0, 0, 1, 4)))
    fields += dice.choice(_HOPS) if dice.random() < 0.25 else ()
    media_type = dice.choice((*_MEDIA_TYPES, b"application/json"))
    fields += [(b"Content-Type", media_type)] if media_type else []
    dice.shuffle(fields)
    may_be_read = body[:1] in (b"{", b"[", b"\xef")
    waits = in_steps and not may_be_read and dice.random() < 0.5
    framing = dice.choice((b"content-length", b"content-length", b"transfer-encoding")) if body else b""
    if not body and method in (b"POST", b"PUT", b"PATCH"):
        framing = dice.choice((b"content-length", b"transfer-encoding"))
    if framing and waits and dice.random() < 0.15:
        fields.append((b"Expect", b"100-continue"))
    head = Head(
        by=Side.CLIENT,
        seen=False,
        start=b"%b %b" % (method, dice.choice(_TARGETS) % token),
        fields=tuple(fields),
        framing=framing,
    )
    parts = cut(dice, body, dice.choice((1, 1, 3)))
    trailers = ((b"X-Sum", b"1"),) if framing == b"transfer-encoding" and dice.random() < 0.2 else ()
    steps: list[AnyStep] = [Data(by=Side.CLIENT, data=part, seen=waits) for part in parts]
    return head, [*steps, End(by=Side.CLIENT, trailers=trailers, seen=in_steps and not may_be_read)]


def _response(dice: Random, token: bytes, method: bytes, *, closes: bool) -> list[AnyStep]:
    status = dice.choice(_STATUSES)
    has_body = method != b"HEAD" and dice.random() < 0.85
    if not has_body and method != b"HEAD":
        status = dice.choice((b"204", b"304"))
    media_type = dice.choice(_MEDIA_TYPES)
    fields = [(b"x-fuzz-answer", token), *dice.sample(_RESPONSE_FIELDS, dice.choice((0, 1, 3, 6)))]
    fields += [(dice.choice(_NAMES), dice.choice(_VALUES)) for _ in range(dice.choice((0, 0, 1, 5)))]
    fields += [(b"Content-Type", media_type)] if media_type else []
    fields += dice.choice(_HOPS[:3]) if dice.random() < 0.1 else ()
    fields += [(b"Connection", b"close")] if closes and dice.random() < 0.1 else []
    dice.shuffle(fields)
    steps: list[AnyStep] = []
    if dice.random() < 0.1:
        for _ in range(dice.choice((1, 1, 3))):
            status_1xx = dice.choice((b"100", b"102", b"103"))
            steps.append(Interim(by=Side.AGENT, seen=False, status=status_1xx, fields=((b"Link", b"</s>"),)))
    framings = (b"content-length", b"transfer-encoding", b"transfer-encoding", *[b"close"] * closes)
    framing = dice.choice(framings) if has_body else b""
    if framing == b"close":
        fields = [field for field in fields if field[0] != b"Connection"]
    body = filler(token, b"a", dice.choice((0, 1, 60, 3_000, 150_000))) if has_body else b""
    steps.append(Head(by=Side.AGENT, start=status, fields=tuple(fields), framing=framing))
    steps += [Data(by=Side.AGENT, data=part) for part in cut(dice, body, dice.choice((1, 1, 2, 4)))]
    if body and closes and dice.random() < 0.1:
        return [*steps, Break(by=Side.AGENT, code=dice.choice((-1, RESET) if framing != b"close" else (RESET,)))]
    trailers = (
        ((b"X-Sum", b"1"), (b"Grpc-Status", b"0")) if framing == b"transfer-encoding" and dice.random() < 0.2 else ()
    )
    return [*steps, End(by=Side.AGENT, trailers=trailers)]


def _left(dice: Random, steps: list[AnyStep]) -> list[AnyStep]:
    """The client leaves inside of the response, where it is seen that it can."""
    begins = next(index for index, step in enumerate(steps) if isinstance(step, Head) and step.by is Side.AGENT)
    at = dice.randrange(begins + 1, len(steps))
    if any(isinstance(step, End | Break) for step in steps[begins : at + 1]) or not steps[begins - 1].seen:
        return steps
    return [*steps[:at], Break(by=Side.CLIENT, code=dice.choice((-1, RESET)))]
