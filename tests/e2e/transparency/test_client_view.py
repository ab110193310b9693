"""A client that does not ask sees, through the proxy, what it sees without: value for value, but for ids."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest
from agents.recording_agent import VERBS, build_app
from agents.serving import ServerThread
from e2e.contracts import GetProxy
from e2e.raw_http import RawResponse
from support.raw_a2a import BINDINGS, Wire
from support.recordings import anonymous, respelt


def ids(response: RawResponse) -> tuple[str, str]:
    """Task and context of an answer, in whatever shape."""
    task = re.search(rb'"(?:taskId|id)":\s*"([0-9a-f-]{36})"', response.body)
    context = re.search(rb'"contextId":\s*"([0-9a-f-]{36})"', response.body)
    assert task, response.body
    assert context, response.body
    return task[1].decode(), context[1].decode()


def same(direct: RawResponse, proxied: RawResponse) -> None:
    """What a client sees is the same, but for ids and times."""
    assert anonymous(respelt(proxied.body.decode())) == anonymous(respelt(direct.body.decode()))
    assert (proxied.status, proxied.complete) == (direct.status, direct.complete)
    assert [name for name, _ in proxied.end_to_end_headers] == [name for name, _ in direct.end_to_end_headers]


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with ServerThread(build_app) as server:
        yield server.url


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("version", "binding"), BINDINGS)
def test_an_agent_by_the_recipe(
    version: str, binding: str, verb: str, stream: bool, agent: str, proxy_of: GetProxy
) -> None:
    wire = Wire(version, binding, rpc="/rpc", rest="/rest")
    text = f"{verb} {uuid.uuid4()}"
    proxy = proxy_of(agent)
    direct, proxied = (wire.message(text, stream=stream).to(url) for url in (agent, proxy.url))
    same(direct, proxied)
    if verb == "raise" and not stream:
        return  # an error, without a task
    (plain_task, plain_context), (task, context) = ids(direct), ids(proxied)
    same(wire.get(plain_task).to(agent), wire.get(task).to(proxy.url))
    if version == "1.0":
        listed = wire.list(context).to(proxy.url)
        same(wire.list(plain_context).to(agent), listed)
        assert b"kettle" not in listed.body
    if verb == "ask":
        same(wire.cancel(plain_task).to(agent), wire.cancel(task).to(proxy.url))
    if verb == "silent":
        return  # the task goes on, and so does the turn
    turn = proxy.turn_of(text)
    assert len(turn["tool_calls"]) == (2 if verb in ("chunks", "late", "empty", "closing") else 1)
