"""What the agent receives on top of the client's request: extension headers, trace context; and what it is not."""

from __future__ import annotations

import uuid

import httpx
import pytest
from agents.scenarios import URI
from e2e.contracts import GetAgent, GetProxy
from support.raw_a2a import BINDINGS, Wire

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"


def headers_seen(upstream: str, text: str) -> list[tuple[str, str]]:
    """The headers of the one request that carried this text, as the agent got them."""
    url = f"{upstream}/_control/requests"
    (request,) = httpx.get(url, params={"containing": text}, trust_env=False).json()
    return [(name, value) for name, value in request["headers"]]


def extensions_seen(upstream: str, text: str) -> dict[str, list[str]]:
    """URIs per extensions header."""
    seen: dict[str, list[str]] = {}
    for name, value in headers_seen(upstream, text):
        if name in ("a2a-extensions", "x-a2a-extensions"):
            seen.setdefault(name, []).extend(uri.strip() for uri in value.split(","))
    return seen


def new_text() -> str:
    return f"artifact {uuid.uuid4()}"


NEGOTIATED = {
    "1.0": {"a2a-extensions": [URI]},
    "0.3": {"a2a-extensions": [URI], "x-a2a-extensions": [URI]},
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("version", "binding"), BINDINGS)
@pytest.mark.parametrize(
    ("mode", "name", "negotiates"),
    [
        ("declared", "v1", True),
        ("declared", "v1-undeclared", False),
        ("always", "v1-undeclared", True),
        ("always", "v1", True),
        ("never", "v1", False),
    ],
)
def test_modes(
    mode: str,
    name: str,
    negotiates: bool,
    version: str,
    binding: str,
    stream: bool,
    agent: GetAgent,
    proxy_of: GetProxy,
) -> None:
    upstream = agent(name)
    proxy = proxy_of(upstream, *([] if mode == "declared" else ["--negotiate", mode]))
    text = new_text()

    response = Wire(version, binding).message(text, stream=stream).to(proxy.url)

    assert response.status == 200
    assert extensions_seen(upstream, text) == (NEGOTIATED[version] if negotiates else {})
    turn = proxy.turn_of(text)
    assert len(turn["tool_calls"]) == (2 if negotiates else 0)
    assert turn["capture"]["declared"] is (name == "v1")


def trace_headers(upstream: str, text: str) -> dict[str, str]:
    return {name: value for name, value in headers_seen(upstream, text) if name in ("traceparent", "tracestate")}


def test_trace_context_of_the_client_is_unchanged(agent: GetAgent, proxy_of: GetProxy) -> None:
    upstream = agent("v1")
    proxy = proxy_of(upstream)
    text = new_text()

    request = Wire("1.0", "JSONRPC").message(text).plus(("traceparent", TRACEPARENT), ("tracestate", "a=1,b=2"))
    request.to(proxy.url)

    assert trace_headers(upstream, text) == {"traceparent": TRACEPARENT, "tracestate": "a=1,b=2"}
    assert proxy.turn_of(text)["trace_id"] == TRACE_ID
