"""What the agent receives on top of the client's request: extension headers, trace context; and what it is not."""

from __future__ import annotations

import uuid

import httpx
import pytest
from agents.scenarios import URI
from e2e.contracts import GetAgent, GetProxy
from support.raw_a2a import BINDINGS, Wire

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACE_CONTEXT = {"traceparent": f"00-{TRACE_ID}-b7ad6b7169203331-01", "tracestate": "a=1,b=2"}
EXTENSIONS = ("a2a-extensions", "x-a2a-extensions")
NEGOTIATED = {"1.0": {EXTENSIONS[0]: URI}, "0.3": dict.fromkeys(EXTENSIONS, URI)}


@pytest.mark.parametrize(("version", "binding"), BINDINGS)
@pytest.mark.parametrize(
    ("mode", "name", "negotiates"),
    [
        ("declared", "v1", True),
        ("declared", "v1-undeclared", False),
        ("always", "v1-undeclared", True),
        ("never", "v1", False),
    ],
)
def test_modes(
    mode: str, name: str, negotiates: bool, version: str, binding: str, agent: GetAgent, proxy_of: GetProxy
) -> None:
    upstream = agent(name)
    proxy = proxy_of(upstream, *([] if mode == "declared" else ["--negotiate", mode]))
    text = f"artifact {uuid.uuid4()}"

    Wire(version, binding).message(text, stream=True).plus(*TRACE_CONTEXT.items()).to(proxy.url)

    requests = httpx.get(f"{upstream}/_control/requests", params={"containing": text}, trust_env=False)
    (request,) = requests.json()
    received = [(name, value) for name, value in request["headers"] if name in (*EXTENSIONS, *TRACE_CONTEXT)]
    expected = TRACE_CONTEXT | (NEGOTIATED[version] if negotiates else {})
    assert sorted(received) == sorted(expected.items())
    turn = proxy.turn_of(text)
    assert len(turn["tool_calls"]) == (2 if negotiates else 0)
    assert turn["capture"]["declared"] is (name == "v1")
    assert turn["trace_id"] == TRACE_ID
