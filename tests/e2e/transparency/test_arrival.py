"""When a client gets the parts of a response: nothing waits that need not."""

from __future__ import annotations

import asyncio
import json
import queue
from collections.abc import Iterator

import h11
import pytest
from agents.h11_agent import H11Agent, Request, Wire
from agents.scenarios import URI
from e2e.raw_http import RawConnection
from support.patience import PATIENCE_S
from support.proxy import Proxy


def task(number: int, *, calls: bool) -> bytes:
    own = {"metadata": {f"{URI}/tool_calls": [{"name": "search"}]}, "extensions": [URI]} if calls else {}
    artifact = {"artifactId": "a", "parts": [{"text": "found"}]} | own
    status = {"state": "TASK_STATE_COMPLETED"}
    result = {"task": {"id": f"t{number}", "contextId": "c", "status": status, "artifacts": [artifact]}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}, separators=(",", ":")).encode()


SENT, CLEAN = task(1, calls=True), task(1, calls=False)
EVENT, CLEAN_EVENT = b"data: " + SENT + b"\n\n", b"data: " + CLEAN + b"\n\n"
BOM = b"\xef\xbb\xbf"
CALLS = {"artifactId": "c", "parts": [], "metadata": {f"{URI}/tool_calls": [{"name": "search"}]}, "extensions": [URI]}
CALLS_ALONE = (
    b"data: %b\n\n"
    % json.dumps(
        {"jsonrpc": "2.0", "id": 1, "result": {"artifactUpdate": {"taskId": "t1", "contextId": "c", "artifact": CALLS}}}
    ).encode()
)

Steps = list[tuple[bytes, bytes]]
"""What the agent sends, and what the client then has before the agent sends the next."""

KINDS: dict[str, tuple[bytes, Steps]] = {
    "events": (b"text/event-stream", [(EVENT, CLEAN_EVENT)] * 3),
    "comment lines": (b"text/event-stream", [(b": a\n", b": a\n"), (b": b\n\n", b": b\n\n"), (EVENT, CLEAN_EVENT)]),
    "comment lines of an event that is removed": (
        b"text/event-stream",
        [(BOM + b": a\n\n\n: b\n" + CALLS_ALONE, BOM + b": a\n\n\n: b\n"), (EVENT, CLEAN_EVENT)],
    ),
    "text": (b"text/plain", [(b"one {", b"one {"), (b"a tool", b"a "), (b"box\n", b"toolbox\n")]),
    "bytes": (b"application/octet-stream", [(b"\x01{", b"\x01{"), (b"\0\xff", b"\0\xff")]),
}


class SteppedAgent(H11Agent):
    """Sends the header of a response at once, and each part of its body when the test says so."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self._parts: queue.Queue[bytes] = queue.Queue()
        self.media_type = b""

    def send(self, part: bytes) -> None:
        """Send the next part; b"" ends the body."""
        self._parts.put(part)

    async def _answer(self, wire: Wire, request: Request) -> None:
        await wire.read_body(request)
        fields = [(b"content-type", self.media_type), (b"transfer-encoding", b"chunked")]
        wire.send(h11.Response(status_code=200, headers=fields))
        while part := await asyncio.to_thread(self._parts.get, timeout=PATIENCE_S):
            wire.send(h11.Data(data=part))
        wire.send(h11.EndOfMessage())


@pytest.fixture(scope="module")
def agent() -> Iterator[SteppedAgent]:
    with SteppedAgent() as agent:
        yield agent


@pytest.fixture(scope="module", params=["always", "never"])
def proxy(
    request: pytest.FixtureRequest, agent: SteppedAgent, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("store")
    with Proxy(agent.url, folder / "turns.db", "--negotiate", request.param) as proxy:
        yield proxy


LINES = {"lines of JSON": (b"application/x-ndjson", [(SENT + b"\n", SENT + b"\n")] * 3)}
"""Which pass where they answer no request of A2A: the proxy asked for nothing in them."""

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


@pytest.mark.parametrize(
    ("kind", "method"),
    [(kind, method) for kind in KINDS for method in ("SendMessage", "acme/own")] + [(*LINES, "acme/own")],
)
def test_a_part_arrives_before_the_agent_sends_the_next(
    kind: str, method: str, agent: SteppedAgent, proxy: Proxy
) -> None:
    """The agent waits for the client: a part that the proxy holds back would never arrive."""
    agent.media_type, steps = {**KINDS, **LINES}[kind]
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": MESSAGE}}).encode()
    with RawConnection(proxy.url) as client:
        client.send("POST / HTTP/1.1", [("Content-Type", "application/json")], body)
        response = client.read_head()
        assert response.status == 200
        pieces, expected = client.pieces(), b""
        for sent, shown in steps:
            agent.send(sent)
            expected += shown
            while len(response.body) < len(expected):
                next(pieces)
            assert response.body.startswith(
                expected
            )  # of text that may begin a name, more passes where nothing is asked
        agent.send(b"")
        list(pieces)
    assert (response.body, response.complete) == (expected, True)
