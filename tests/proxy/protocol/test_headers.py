"""Header rules: what passes as it is, what stays on its hop, what negotiation adds."""

from __future__ import annotations

import pytest
from a2a_eval_proxy.protocol.headers import ClientRequestHeaders, for_agent, public_url, read_request, response_headers
from a2a_tool_capture import URI
from a2a_tool_capture.spec import requested_uris
from hypothesis import given
from hypothesis import strategies as st

OTHER = "https://example.com/other/v1"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


def read(*lines: tuple[str, str]) -> ClientRequestHeaders:
    return read_request([(name.encode(), value.encode("latin-1")) for name, value in lines])


def forwarded(*lines: tuple[str, str]) -> list[tuple[str, str]]:
    return shown(read(*lines).forward)


def asked(*lines: tuple[str, str]) -> list[tuple[str, str]]:
    """What goes upstream when the agent declares the extension."""
    return shown(for_agent(read(*lines), "", "", asks=True))


def shown(headers: list[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode(), value.decode("latin-1")) for name, value in headers]


# ── requests ────────────────────────────────────────────────────────────────────────────────────────────────


END_TO_END = [
    ("accept", "*/*"),
    ("cookie", " a=1;  b=2 "),
    ("x-note", "caf\xe9 \xff"),
    ("accept", "text/event-stream"),
    ("authorization", "Bearer x"),
    ("traceparent", "junk"),
    ("a2a-version", "1.0"),
]
OF_THE_HOP = [
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
    "expect",
]
NAMED = [("x-hop", "1"), ("connection", "keep-alive, X-Hop"), ("connection", "x-also ,"), ("x-also", "2")]
KEPT = [("connection", f"{name}, close") for name in ("authorization", "Cookie", "accept", "a2a-version")]
"""They are for all recipients, whatever a client names."""


@pytest.mark.parametrize("hop", [[], NAMED, KEPT, *([(name, "x")] for name in OF_THE_HOP)])
def test_end_to_end_headers_pass_byte_for_byte_and_those_of_the_hop_stay_there(hop: list[tuple[str, str]]) -> None:
    assert forwarded(*hop, *END_TO_END) == END_TO_END


def test_case_and_run_are_for_the_proxy() -> None:
    headers = read(("a2a-eval-case", " refund "), ("a2a-eval-run", "nightly"))
    assert (headers.case_id, headers.run, headers.forward) == ("refund", "nightly", [])
    assert read(("a2a-eval-case", " "), ("a2a-eval-run", "")).case_id is None


@pytest.mark.parametrize(("raw", "name"), [("Größe ☃".encode(), "Größe ☃"), (b"caf\xe9", "café")])
def test_names_of_cases_and_runs_may_be_in_any_script(raw: bytes, name: str) -> None:
    headers = read_request([(b"a2a-eval-case", raw), (b"a2a-eval-run", raw)])
    assert (headers.case_id, headers.run) == (name, name)


def test_facts_of_a_request() -> None:
    headers = read(("host", "proxy:8080"), ("content-length", "5"), ("a2a-version", "1.0"))
    assert (headers.host, headers.length, headers.version) == ("proxy:8080", 5, "1.0")
    assert headers.size == len("hostproxy:8080content-length5a2a-version1.0")
    assert read(("transfer-encoding", "chunked")).length is None
    assert read(("connection", "content-length"), ("content-length", "5")).length == 5


@pytest.mark.parametrize("name", ["a2a-extensions", "x-a2a-extensions"])
@pytest.mark.parametrize(
    ("value", "requested"),
    [(URI, True), (f"{OTHER},{URI}", True), (URI.replace("v1", "v2"), True), (OTHER, False), ("", False)],
)
def test_whether_the_client_asked_for_the_extension(name: str, value: str, requested: bool) -> None:
    assert read((name, value)).requested is requested
    assert read((name, OTHER), (name, value)).requested is requested


# ── trace context ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sent", [[], [("traceparent", "")], [("traceparent", "junk"), ("tracestate", "a=1")]])
def test_a_trace_that_the_proxy_starts_takes_the_place_of_one_that_is_not_valid(sent: list[tuple[str, str]]) -> None:
    headers = for_agent(read(*sent, ("accept", "*/*")), f"00-{TRACE}-{SPAN}-01", "b=2", asks=False)
    assert shown(headers) == [("accept", "*/*"), ("traceparent", f"00-{TRACE}-{SPAN}-01"), ("tracestate", "b=2")]


@pytest.mark.parametrize("value", [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-01-more"])
def test_a_valid_traceparent(value: str) -> None:
    assert read(("traceparent", value)).trace_context == (TRACE, SPAN)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "junk",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01x",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01more",
    ],
)
def test_an_invalid_traceparent(value: str) -> None:
    assert read(("traceparent", value)).trace_context is None


# ── negotiation ─────────────────────────────────────────────────────────────────────────────────────────────


V1 = ("a2a-version", "1.0")
BOTH = [("a2a-extensions", URI), ("x-a2a-extensions", URI)]
ANOTHER = f"{OTHER}, {URI.replace('v1', 'v2')}"


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ([V1], [V1, ("a2a-extensions", URI)]),
        ([], BOTH),
        ([("a2a-version", "0.3")], [("a2a-version", "0.3"), *BOTH]),
        # a client of 1.0 that uses the old name gets both
        ([V1, ("x-a2a-extensions", OTHER)], [V1, ("a2a-extensions", URI), ("x-a2a-extensions", f"{OTHER},{URI}")]),
        # its own extensions are kept
        (
            [V1, ("a2a-extensions", f"{OTHER}, b"), ("x", "1"), ("a2a-extensions", "c,b")],
            [V1, ("x", "1"), ("a2a-extensions", f"{OTHER},b,c,{URI}")],
        ),
        # who asks itself is not touched, but for the other name in 0.3
        ([("a2a-extensions", URI), V1, ("accept", "*/*")], [("a2a-extensions", URI), V1, ("accept", "*/*")]),
        ([("a2a-extensions", f"{OTHER} , {URI}"), V1], [("a2a-extensions", f"{OTHER} , {URI}"), V1]),
        ([("x-a2a-extensions", URI)], [("x-a2a-extensions", URI), ("a2a-extensions", URI)]),
        # nor is who asks for another version
        *(([("a2a-version", "0.3"), (name, ANOTHER)],) * 2 for name in ("a2a-extensions", "x-a2a-extensions")),
    ],
)
def test_what_the_proxy_asks_for(sent: list[tuple[str, str]], left: list[tuple[str, str]]) -> None:
    assert asked(*sent) == left


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("gzip, deflate, br, zstd", "gzip, deflate"),
        ("br;q=1.0, gzip;q=0.5", "gzip;q=0.5"),
        ("br", "identity"),
        ("*", "identity"),
        ("gzip;q=0.5 , identity", "gzip;q=0.5 , identity"),
        ("GZIP", "GZIP"),
    ],
)
def test_only_codings_that_can_be_read_are_offered(value: str, left: str) -> None:
    assert asked(("a2a-version", "1.0"), ("accept-encoding", value))[1] == ("accept-encoding", left)
    assert forwarded(("accept-encoding", value)) == [("accept-encoding", value)]


NAMES = (
    b"accept a2a-extensions x-a2a-extensions a2a-version connection x-hop host cookie forwarded x-forwarded-host "
    b"traceparent te accept-encoding a2a-eval-run"
)
header_lines = st.lists(
    st.tuples(
        st.sampled_from(NAMES.split()),
        st.sampled_from([b"1.0", b"0.3", URI.encode(), OTHER.encode(), b"x-hop, close", b"a,,b", b"gzip, br"])
        | st.binary(max_size=8),
    ),
    max_size=8,
)


@given(header_lines)
def test_any_headers_can_be_read(lines: list[tuple[bytes, bytes]]) -> None:
    headers = read_request(lines)
    rest = iter(lines)
    assert all(item in rest for item in headers.forward)  # in order, none made up
    assert "://" in public_url(headers, "http", None)
    assert headers.trace_context is None or [len(part) for part in headers.trace_context] == [32, 16]


@given(header_lines)
def test_negotiation_adds_the_uri_once_and_takes_nothing(lines: list[tuple[bytes, bytes]]) -> None:
    headers = read_request(lines)
    before = list(headers.forward)
    out = for_agent(headers, "", "", asks=True)
    assert headers.forward == before
    ours = b",".join(value for name, value in out if name == b"a2a-extensions")
    asked_uris = [uri.strip() for uri in ours.decode("latin-1").split(",")]
    assert asked_uris.count(URI) >= 1
    assert set(requested_uris(headers.extensions)) <= set(asked_uris)
    untouched = (b"a2a-extensions", b"x-a2a-extensions", b"accept-encoding")
    assert [item for item in out if item[0] not in untouched] == [item for item in before if item[0] not in untouched]


# ── responses ───────────────────────────────────────────────────────────────────────────────────────────────


ETAG = (b"ETag", b'"1"')
AS_THEY_ARE = [
    (b"Content-Type", b"text/event-stream"),
    (b"X-B", b" \xff "),
    (b"set-cookie", b"a"),
    (b"Set-Cookie", b"b"),
]
HOP = [(b"X-Hop", b"1"), (b"Connection", b"close, x-hop"), (b"Transfer-Encoding", b"chunked"), (b"Keep-Alive", b"t=5")]
DROPPED = [(b"Content-Length", b"3"), (b"Content-Encoding", b"gzip"), ETAG]


@pytest.mark.parametrize(
    ("raw", "drop", "left"),
    [
        (AS_THEY_ARE, [], AS_THEY_ARE),
        ([*HOP, ETAG], [], [ETAG]),
        (DROPPED, [b"content-length", b"content-encoding"], [ETAG]),
    ],
)
def test_response_headers(raw: list[tuple[bytes, bytes]], drop: list[bytes], left: list[tuple[bytes, bytes]]) -> None:
    assert response_headers(raw, drop=frozenset(drop)) == left


# ── the public URL ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("lines", "url"),
    [
        ({"host": "proxy:8080"}, "http://proxy:8080"),
        ({"host": "[::1]:8080"}, "http://[::1]:8080"),
        ({"host": "p", "x-forwarded-host": "agents.example.com"}, "http://agents.example.com"),
        ({"host": "p", "x-forwarded-proto": "https"}, "https://p"),
        ({"host": "p", "x-forwarded-host": "a, b", "x-forwarded-proto": "https, http"}, "https://a"),
        ({"host": "p", "x-forwarded-prefix": "/team/agent/"}, "http://p/team/agent"),
        ({"host": "p", "x-forwarded-prefix": "/"}, "http://p"),
        ({"host": "p", "forwarded": "host=a.example.com;proto=https"}, "https://a.example.com"),
        ({"host": "p", "forwarded": 'For=1.2.3.4; Host="a:8443" ; Proto=https, host=b'}, "https://a:8443"),
        ({"host": "p", "forwarded": 'host="[2001:db8::1]:80"'}, "http://[2001:db8::1]:80"),
        ({"host": "p", "forwarded": "host=a", "x-forwarded-host": "b", "x-forwarded-proto": "https"}, "https://a"),
        ({"host": "p", "forwarded": "for=1.2.3.4"}, "http://p"),
        ({"host": "p", "forwarded": ";;=;junk"}, "http://p"),
        ({"host": "p", "x-forwarded-host": "a/b"}, "http://p"),
        ({"host": "p", "x-forwarded-host": 'a"><script>'}, "http://p"),
        ({"host": "p", "forwarded": "host=a b", "x-forwarded-host": "u@b"}, "http://p"),
        ({"host": "p", "x-forwarded-proto": "javascript"}, "http://p"),
        ({"host": "p", "forwarded": "proto=HTTPS"}, "https://p"),
    ],
)
def test_where_the_client_reached_the_proxy(lines: dict[str, str], url: str) -> None:
    assert public_url(read(*lines.items()), "http", None) == url


def test_the_configured_public_url_goes_first() -> None:
    headers = read(("host", "p"), ("forwarded", "host=a;proto=https"))
    assert public_url(headers, "http", "https://agents.example.com/shop/") == "https://agents.example.com/shop"
