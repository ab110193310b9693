"""What may differ between an exchange with the agent and the same one through the proxy: lines of the page on traffic
(proxy/docs/transparency.md).

Each rule makes of what was seen directly what must be seen through the proxy; everything else must be equal.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from a2a_tool_capture import URI

from .peers import RawFields, asks
from .script import Break, Exchange, Seen, Side, shortened

_URI = URI.encode()
_HOPS = frozenset({b"connection", b"http2-settings", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"})
_DIGESTS = frozenset({b"content-digest", b"repr-digest", b"digest", b"content-md5"})
_READABLE = frozenset({b"identity", b"gzip", b"deflate", b"x-gzip"})
_TRACEPARENT = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-01")
_NAMED = re.compile(rb"a2a-eval-proxy=[0-9a-f]{32}")


@dataclass
class Case:
    """One exchange on both ways. The rules edit `client` and `agent`, what was seen directly."""

    exchange: Exchange
    protocol: str
    negotiates: bool
    client: Seen
    agent: Seen
    proxied: dict[Side, Seen]

    @property
    def is_asked(self) -> bool:
        """Whether the proxy asks the agent for tool calls."""
        return self.negotiates and self.exchange.asks and not asks(self.exchange.head.fields)

    @property
    def has_calls(self) -> bool:
        """Whether the agent then says something else."""
        body = self.exchange.body
        return self.is_asked and body(Side.AGENT) != body(Side.AGENT, asked=True)


Rule = Callable[[Case], None]
RULES: list[Rule] = []


def _allowed(line: str) -> Callable[[Rule], Rule]:
    """`line`: of the page, for readers."""

    def add(rule: Rule) -> Rule:
        RULES.append(rule)
        return rule

    return add


def differences(case: Case) -> list[str]:
    """What differs beyond the rules, as sentences."""
    for rule in RULES:
        rule(case)
    return [
        *_compared("the agent", case.agent, case.proxied[Side.AGENT]),
        *_compared("the client", case.client, case.proxied[Side.CLIENT]),
    ]


def _compared(who: str, expected: Seen, got: Seen) -> Iterator[str]:
    for name in ("start", "interim", "end", "fields", "trailers", "body"):
        wanted, had = getattr(expected, name), getattr(got, name)
        if wanted != had:
            pairs = zip(wanted, had, strict=False)
            same = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(wanted), len(had)))
            begin = max(same - 60, 0) if name == "body" else 0
            shown = shortened(had[begin:]), shortened(wanted[begin:])
            yield f"{who} got {name} that differ from place {same} on: {shown[0]}, directly {shown[1]}"


def _without(fields: RawFields, names: frozenset[bytes] | set[bytes]) -> list[tuple[bytes, bytes]]:
    return [item for item in fields if item[0].lower() not in names]


def _value(fields: RawFields, name: bytes) -> bytes:
    return next((value for key, value in fields if key.lower() == name), b"")


def _hops(fields: RawFields) -> set[bytes]:
    named = [value.lower().split(b",") for name, value in fields if name.lower() == b"connection"]
    return _HOPS | {name.strip() for names in named for name in names} - {b"content-type", b"authorization", b"cookie"}


# ── the request ─────────────────────────────────────────────────────────────────────────────────────────────


@_allowed("REQ-7")
def _request_hops(case: Case) -> None:
    te = [(b"te", b"trailers")] if case.protocol == "grpc" and (b"te", b"trailers") in case.agent.fields else []
    at = case.agent.fields.index(te[0]) if te else 0
    removed = _hops(case.agent.fields)
    case.agent.fields[:] = [
        item for index, item in enumerate(case.agent.fields) if item[0].lower() not in removed or (te and index == at)
    ]


@_allowed("REQ-5")
def _request_names(case: Case) -> None:
    case.agent.fields[:] = [(name.lower(), value) for name, value in case.agent.fields]


@_allowed("REQ-6")
def _host(case: Case) -> None:
    """That it is the agent's own is compared: `peers` puts one word for it."""
    for fields in (case.agent.fields, case.proxied[Side.AGENT].fields):
        hosts = [item for item in fields if item[0].lower() in (b"host", b":authority", b":scheme")]
        fields[:] = [*sorted(hosts), *(item for item in fields if item not in hosts)]
    if case.protocol == "grpc":
        case.agent.fields[:] = _without(case.agent.fields, {b"host"})


@_allowed("REQ-8")
def _request_framing(case: Case) -> None:
    for fields in (case.agent.fields, case.proxied[Side.AGENT].fields):
        if case.protocol != "grpc":
            fields[:] = _without(fields, {b"content-length", b"transfer-encoding"})


@_allowed("REQ-11")
def _expectation(case: Case) -> None:
    case.agent.fields[:] = _without(case.agent.fields, {b"expect"})


@_allowed("REQ-12")
def _request_trailers(case: Case) -> None:
    if case.protocol != "grpc":
        case.agent.trailers.clear()


@_allowed("REQ-14")
def _offered_codings(case: Case) -> None:
    fields = case.agent.fields
    name = b"grpc-accept-encoding" if case.protocol == "grpc" else b"accept-encoding"
    if case.exchange.asks and (case.negotiates or case.protocol == "grpc"):
        for index, (key, value) in enumerate(fields):
            if key == name:
                offers = [one.strip() for one in value.split(b",")]
                kept = [one for one in offers if one.split(b";")[0].strip().lower() in _READABLE]
                if kept != offers:
                    joint = b"," if case.protocol == "grpc" else b", "
                    fields[index] = key, joint.join(kept) or b"identity"


@_allowed("REQ-15")
def _trace(case: Case) -> None:
    """Compared without, where the proxy has started one."""
    fields = case.proxied[Side.AGENT].fields
    if not _value(case.agent.fields, b"traceparent") and _TRACEPARENT.fullmatch(_value(fields, b"traceparent")):
        named = not _value(case.agent.fields, b"tracestate") and _NAMED.fullmatch(_value(fields, b"tracestate"))
        fields[:] = _without(fields, {b"traceparent", *([b"tracestate"] if named else [])})


@_allowed("REQ-16")
def _own_fields(case: Case) -> None:
    case.agent.fields[:] = _without(case.agent.fields, {b"a2a-eval-case", b"a2a-eval-run"})


@_allowed("XT-1")
def _asking(case: Case) -> None:
    """Compared without what the proxy asks, which must be where it is expected."""
    if not (case.negotiates and case.exchange.asks):
        return
    names, fields = {b"a2a-extensions"}, case.agent.fields
    version = _value(fields, b"a2a-version")
    if version[:2] in (b"", b"0.") or _value(fields, b"x-a2a-extensions"):
        names.add(b"x-a2a-extensions")
    for name in sorted(names):
        uris = [value for key, value in fields if key == name]
        if any(_URI in value for value in uris):
            continue
        if uris:
            fields[:] = _without(fields, {name})
        fields.append((name, b",".join([*uris, _URI])))


# ── the response ────────────────────────────────────────────────────────────────────────────────────────────


@_allowed("RES-3")
def _response_hops(case: Case) -> None:
    if case.protocol != "grpc":
        for fields in (case.client.fields, case.proxied[Side.CLIENT].fields):  # its own say how its connection goes on
            fields[:] = _without(fields, _hops(fields))


@_allowed("RES-5")
def _response_framing(case: Case) -> None:
    for fields in (case.client.fields, case.proxied[Side.CLIENT].fields):
        if case.protocol != "grpc":
            fields[:] = _without(fields, {b"transfer-encoding"})
            fields[:] = [(n.lower(), v) if n.lower() == b"content-length" else (n, v) for n, v in fields]
    length = _value(case.proxied[Side.CLIENT].fields, b"content-length")
    if case.exchange.filtered and length and not _value(case.client.fields, b"content-length"):
        case.client.fields.append((b"content-length", b"%d" % len(case.proxied[Side.CLIENT].body)))
    is_stream = _value(case.client.fields, b"content-type").startswith(b"text/event-stream")
    if case.exchange.filtered and is_stream:
        case.client.fields[:] = _without(case.client.fields, {b"content-length"})


@_allowed("RES-6")
def _response_coding(case: Case) -> None:
    coding, exchange = _value(case.client.fields, b"content-encoding"), case.exchange
    is_decoded = not _value(case.proxied[Side.CLIENT].fields, b"content-encoding")  # of a stream it may be
    if coding and exchange.filtered and (case.has_calls or is_decoded):
        whole = gzip.decompress if coding == b"gzip" else zlib.decompress
        case.client.body[:] = whole(case.client.body)
        case.client.fields[:] = _without(case.client.fields, {b"content-encoding"} | _DIGESTS)
        _set_length(case.client)


def _set_length(seen: Seen) -> None:
    for index, (name, _) in enumerate(seen.fields):
        if name.lower() == b"content-length":
            seen.fields[index] = name, b"%d" % len(seen.body)


@_allowed("RES-7")
def _digests(case: Case) -> None:
    if case.has_calls:
        case.client.fields[:] = _without(case.client.fields, _DIGESTS)


@_allowed("RES-11")
def _interim(case: Case) -> None:
    """Of REQ-11, the proxy says 100 itself, unless the body has already arrived."""
    case.client.interim.clear()
    if _value(case.exchange.head.fields, b"expect") and case.proxied[Side.CLIENT].interim == [b"100"]:
        case.client.interim.append(b"100")
    if case.protocol != "grpc":
        case.client.trailers.clear()


@_allowed("GRPC-9")
def _cancellation(case: Case) -> None:
    """Every early end of a client is a cancellation for the agent."""
    if case.protocol == "grpc" and case.agent.end.startswith("reset"):
        case.agent.end = "reset 8"


@_allowed("GRPC-11")
def _changed_messages(case: Case) -> None:
    """A message that had tool calls comes uncompressed; compared is what it says."""
    if case.protocol == "grpc" and case.has_calls and b"grpc-encoding" in dict(case.client.fields):
        for seen in (case.client, case.proxied[Side.CLIENT]):
            seen.body[:] = _uncompressed(bytes(seen.body))


def _uncompressed(data: bytes) -> bytes:
    out = []
    while data:
        flag, size = data[0], int.from_bytes(data[1:5], "big")
        message, data = data[5 : 5 + size], data[5 + size :]
        out.append(gzip.decompress(message) if flag else message)
    return b"".join(len(message).to_bytes(4, "big") + message for message in out)


@_allowed("REQ-4")
def _version(case: Case) -> None:
    """Over HTTP/2, names are in lower case, cookies come in one field, and a cut is a reset."""
    if case.protocol != "h2":
        return
    case.client.fields[:] = [(name.lower(), value) for name, value in case.client.fields]
    for fields in (case.agent.fields, case.proxied[Side.AGENT].fields):
        cookies = [value for name, value in fields if name == b"cookie"]
        if cookies:
            fields[:] = [*_without(fields, {b"cookie"}), (b"cookie", b"; ".join(cookies))]
    if case.client.end == "cut":
        case.client.end = "reset 2"


@_allowed("RES-12")
def _cut(case: Case) -> None:
    """What the agent had sent before the end may be lost to a client where no step waited for it."""
    got = case.proxied[Side.CLIENT].body
    if case.client.end in ("cut", "reset 2") and case.client.body.startswith(got) and not _must_be_seen(case.exchange):
        case.client.body[:] = got


def _must_be_seen(exchange: Exchange) -> bool:
    *before, last = exchange.steps
    return isinstance(last, Break) and before[-1].seen
