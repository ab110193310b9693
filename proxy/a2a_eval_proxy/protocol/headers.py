"""Header rules of the byte path: hop-by-hop fields, negotiation, trace context, the proxy's own fields. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import chain

from a2a_tool_capture.spec import EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER, URI, is_capture_uri, requested_uris

CASE_HEADER = b"a2a-eval-case"
RUN_HEADER = b"a2a-eval-run"

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110, section 7.6.1, and RFC 7540, section 3.2.1. `Connection` may name more."""

_OURS = _HOP_BY_HOP | {b"host", b"expect", b"content-length", CASE_HEADER, RUN_HEADER}
"""Not forwarded: the agent gets its own `Host`, the server answers `Expect: 100-continue`, and the HTTP client writes
the fields that frame the body."""

_EXTENSIONS = EXTENSIONS_HEADER.lower().encode()
_LEGACY_EXTENSIONS = LEGACY_EXTENSIONS_HEADER.lower().encode()
# Version 00 ends with the flags; a later one may continue after a dash; ff is not a version.
_TRACEPARENT = re.compile(
    r"(?:00(?!.{54})|(?!00|ff)[0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?![^-])"
)
DIGESTS = frozenset({b"content-digest", b"repr-digest", b"digest", b"content-md5"})
"""Header fields with a checksum of the body (RFC 9530 and the fields it replaces)."""

_HOST = re.compile(r"(?:[\w.~%!$&'()*+,;=-]+|\[[0-9A-Fa-f:.]+\])(?::\d*)?")
"""RFC 3986, section 3.2.2, and names in any script."""

_DECODABLE = frozenset({b"identity", b"gzip", b"deflate", b"x-gzip"})
_FORWARDED = frozenset({b"forwarded", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-prefix"})
_TRACE_CONTEXT = frozenset({b"traceparent", b"tracestate"})

NOT_TO_SET = _OURS | _TRACE_CONTEXT | {_EXTENSIONS, _LEGACY_EXTENSIONS}
"""Names that a configured header cannot have: these fields frame the request, or are set for each request."""

_END_TO_END = (
    DIGESTS
    | _FORWARDED
    | {
        b"a2a-version",
        b"accept",
        b"accept-encoding",
        b"authorization",
        b"cache-control",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"cookie",
        b"location",
        b"set-cookie",
        b"traceparent",
        b"tracestate",
        b"www-authenticate",
        b"x-forwarded-for",
        _EXTENSIONS,
        _LEGACY_EXTENSIONS,
    }
)
"""Fields that `Connection` cannot remove (RFC 9110, section 7.6.1: they are for all recipients). Otherwise the agent
could get another message than the one that was captured."""

_READ = (
    _FORWARDED
    | _TRACE_CONTEXT
    | {b"a2a-version", b"content-encoding", b"content-type", b"range", _EXTENSIONS, _LEGACY_EXTENSIONS}
)


@dataclass(slots=True)
class ClientRequestHeaders:
    """The request's headers, read once. `forward` has those for the agent, before negotiation and without `Host`."""

    forward: list[tuple[bytes, bytes]] = field(default_factory=list)
    length: int | None = None
    """Bytes of a body that arrives in pieces, where `Content-Length` frames it."""
    size: int = 0
    """Bytes of all names and values."""
    host: str = ""
    forwarded: dict[str, str] = field(default_factory=dict)
    version: str = ""
    extensions: list[str] = field(default_factory=list)
    legacy_extensions: list[str] = field(default_factory=list)
    content_encoding: str = ""
    content_type: bytes = b""
    """All of `Content-Type`."""
    has_range: bool = False
    traceparent: str = ""
    case_id: str | None = None
    run: str | None = None
    requested: bool = False
    """Whether the client itself activated (some version of) the extension by header."""
    trace_context: tuple[str, str] | None = None
    """Trace id and parent span id of a valid `traceparent` (W3C Trace Context, section 3.2.2)."""
    client_span_id: str = ""
    """The parent span id that the client sent; "" where it sent no valid `traceparent`."""
    trace_state: str = ""
    """The value of `tracestate`."""

    def with_parent(self, traceparent: str) -> ClientRequestHeaders:
        """These headers with another `traceparent`."""
        forward = [item for item in self.forward if item[0] != b"traceparent"]
        forward.append((b"traceparent", traceparent.encode()))
        return replace(self, forward=forward, traceparent=traceparent, trace_context=_trace_context(traceparent))


def read_request(raw: Collection[tuple[bytes, bytes]]) -> ClientRequestHeaders:
    """Sort the client's headers. Names are lower-case, as ASGI gives them. Never raises."""
    out = ClientRequestHeaders(size=sum(map(len, chain.from_iterable(raw))))
    named_hops: list[bytes] = []
    for name, raw_value in raw:
        if name in _OURS:
            if name == b"host":
                out.host = raw_value.decode("latin-1")
            elif name == b"connection":
                named_hops += _named_hops(raw_value)
            elif name == b"content-length":
                out.length = int(raw_value) if raw_value.isdigit() and len(raw_value) < 20 else None
            elif name == CASE_HEADER:
                out.case_id = _text(raw_value).strip() or None
            elif name == RUN_HEADER:
                out.run = _text(raw_value).strip() or None
            continue
        if name in _READ:
            value = raw_value.decode("latin-1").strip()
            if name == b"a2a-version":
                out.version = value
            elif name == _EXTENSIONS:
                out.extensions.append(value)
            elif name == _LEGACY_EXTENSIONS:
                out.legacy_extensions.append(value)
            elif name == b"traceparent":
                out.traceparent = value
            elif name == b"tracestate":
                out.trace_state = f"{out.trace_state},{value}" if out.trace_state else value
            elif name == b"content-encoding":
                out.content_encoding = f"{out.content_encoding},{value.lower()}".lstrip(",")
            elif name == b"content-type":
                out.content_type += raw_value + b";"
            elif name == b"range":
                out.has_range = True
            else:
                out.forwarded[name.decode()] = value
        out.forward.append((name, raw_value))
    if named_hops:
        out.forward = [item for item in out.forward if item[0] not in named_hops]
    if out.extensions or out.legacy_extensions:
        out.requested = any(map(is_capture_uri, requested_uris(out.extensions + out.legacy_extensions)))
    if out.traceparent:
        out.trace_context = _trace_context(out.traceparent)
        out.client_span_id = out.trace_context[1] if out.trace_context else ""
    return out


def _trace_context(traceparent: str) -> tuple[str, str] | None:
    match = _TRACEPARENT.match(traceparent)
    return (match[1], match[2]) if match else None


def for_agent(
    headers: ClientRequestHeaders, traceparent: str, trace_state: str, *, asks: bool
) -> list[tuple[bytes, bytes]]:
    """The headers that go to the agent. `asks`: with the extension activated. `traceparent` starts a trace, in place of
    one that is not valid (W3C Trace Context, section 4.3), `trace_state` takes the place of another: "" for neither.

    A request that asks has no content codings in `Accept-Encoding` that capture cannot decode.
    """
    added = _activation(headers) if asks else []
    if traceparent:
        added.append((b"traceparent", traceparent.encode()))
    if trace_state:
        added.append((b"tracestate", trace_state.encode("latin-1")))
    replaced = {name for name, _ in added}
    if traceparent and headers.traceparent:
        replaced.add(b"tracestate")
    kept = [
        _decodable(item) if asks and item[0] == b"accept-encoding" else item
        for item in headers.forward
        if item[0] not in replaced
    ]
    return kept + added


def _activation(headers: ClientRequestHeaders) -> list[tuple[bytes, bytes]]:
    """The fields that activate the extension, in place of the client's own, whose URIs they keep.

    0.3 servers read `X-A2A-Extensions` only, so requests of 0.3, which may state no version (A2A 1.0, section 3.6),
    carry both names. Where a client asks for other versions of the extension only, the proxy adds nothing.
    """
    wanted = [(_EXTENSIONS, headers.extensions)]
    if not headers.version or headers.version.startswith("0.") or headers.legacy_extensions:
        wanted.append((_LEGACY_EXTENSIONS, headers.legacy_extensions))
    if headers.requested and URI not in requested_uris(headers.extensions + headers.legacy_extensions):
        return []
    added = []
    for name, values in wanted:
        uris = requested_uris(values) if values else []
        if URI not in uris:
            added.append((name, ",".join([*uris, URI]).encode("latin-1")))
    return added


def _decodable(item: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    codings = [coding.strip() for coding in item[1].split(b",")]
    kept = [coding for coding in codings if coding.split(b";")[0].strip().lower() in _DECODABLE]
    return item if len(kept) == len(codings) else (item[0], b", ".join(kept) or b"identity")


def response_headers(
    raw: Iterable[tuple[bytes, bytes]], *, drop: frozenset[bytes] = frozenset()
) -> list[tuple[bytes, bytes]]:
    """The agent's response headers without hop-by-hop ones and those in `drop` (lower-case)."""
    out = []
    named_hops: list[bytes] = []
    for name, value in raw:
        lower = name.lower()
        if lower in _HOP_BY_HOP:
            if lower == b"connection":
                named_hops += _named_hops(value)
        elif lower not in drop:
            out.append((name, value))
    if named_hops:
        out = [item for item in out if item[0].lower() not in named_hops]
    return out


def _named_hops(value: bytes) -> list[bytes]:
    """The fields that a `Connection` header removes."""
    names = [token.strip().lower() for token in value.split(b",")]
    return [name for name in names if name not in _END_TO_END]


def public_url(headers: ClientRequestHeaders, scheme: str, configured: str | None) -> str:
    """The URL under which the client reached the proxy, without a final slash.

    Configured, else from Forwarded (RFC 7239), else X-Forwarded-*, else Host. Of a list of proxies the first counts,
    which is the nearest to the client. Values that are not a host or scheme of a URL are ignored.
    """
    if configured:
        return configured.rstrip("/")
    pairs = {}
    for pair in headers.forwarded.get("forwarded", "").split(",")[0].split(";"):
        key, _, value = pair.strip().partition("=")
        pairs[key.lower()] = value.strip('"')
    protos = (pairs.get("proto", "").lower(), _first(headers.forwarded.get("x-forwarded-proto")).lower())
    proto = next((proto for proto in protos if proto in ("http", "https")), scheme)
    hosts = (pairs.get("host", ""), _first(headers.forwarded.get("x-forwarded-host")))
    host = next((host for host in hosts if _HOST.fullmatch(host)), headers.host)
    prefix = _first(headers.forwarded.get("x-forwarded-prefix")).strip("/")
    return f"{proto}://{host}" + (f"/{prefix}" if prefix else "")


def _first(value: str | None) -> str:
    return value.split(",")[0].strip() if value else ""


def _text(value: bytes) -> str:
    try:  # names of cases and runs may be in any script
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
