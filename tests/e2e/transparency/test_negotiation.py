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


def named_turn(upstream: str, text: str) -> str:
    """The `tracestate` that the agent got."""
    return trace_headers(upstream, text).get("tracestate", "")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("version", "binding"), BINDINGS)
def test_a_trace_that_the_proxy_starts_names_the_turn(
    version: str, binding: str, stream: bool, agent: GetAgent, proxy_of: GetProxy
) -> None:
    upstream = agent("v1")
    proxy = proxy_of(upstream)
    text = new_text()

    Wire(version, binding).message(text, stream=stream).to(proxy.url)

    assert named_turn(upstream, text) == f"a2a-eval-proxy={proxy.turn_of(text)['turn_id']}"


def test_a_trace_that_names_a_turn_names_the_next_one(agent: GetAgent, proxy_of: GetProxy) -> None:
    """The others stay as they are, in their order, and ours comes first (W3C Trace Context, section 3.5)."""
    upstream = agent("v1")
    proxy = proxy_of(upstream)
    text, earlier = new_text(), uuid.uuid4().hex
    fields = ("traceparent", TRACEPARENT), ("tracestate", "a=1"), ("tracestate", f"a2a-eval-proxy={earlier}, b=2")

    Wire("1.0", "JSONRPC").message(text).plus(*fields).to(proxy.url)

    assert trace_headers(upstream, text)["traceparent"] == TRACEPARENT
    assert named_turn(upstream, text) == f"a2a-eval-proxy={proxy.turn_of(text)['turn_id']},a=1, b=2"


def test_only_messages_name_turns(agent: GetAgent, proxy_of: GetProxy) -> None:
    upstream = agent("v1")
    proxy = proxy_of(upstream)
    task, earlier = f"no-{uuid.uuid4()}", f"a2a-eval-proxy={uuid.uuid4().hex}"
    request = Wire("1.0", "JSONRPC").get(task)

    request.plus(("traceparent", TRACEPARENT), ("tracestate", earlier)).to(proxy.url)

    assert named_turn(upstream, task) == earlier


@pytest.mark.parametrize("chunked", [False, True])
def test_batches_do_not_get_the_extension(chunked: bool, agent: GetAgent, proxy_of: GetProxy) -> None:
    """What they bring back is not read, so it could not be taken out again."""
    upstream = agent("v1")
    text = new_text()
    request = Wire("1.0", "JSONRPC").message(text)
    body = b" [" + request.body + b"]"

    content = iter([body[:20], body[20:]]) if chunked else body
    httpx.post(
        proxy_of(upstream).url + "/a2a/jsonrpc", content=content, headers={"a2a-version": "1.0"}, trust_env=False
    )

    assert extensions_seen(upstream, text) == {}
