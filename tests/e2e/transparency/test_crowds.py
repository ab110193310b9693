"""Crowds of clients that take what others need: connections, memory for requests they have begun, answers unread."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import h11
import httpx
import pytest
from agents.h11_agent import H11Agent, Request, Wire
from support.patience import PATIENCE_S
from support.prefork import COMMAND
from support.proxy import Proxy

FEW_FILES = ("sh", "-c", 'ulimit -n 256; exec "$@"', "serve", COMMAND)
LARGE = 9_000_000


class Large(H11Agent):
    """Answers with a task whose text is large."""

    def __init__(self) -> None:
        super().__init__(self._answer)

    async def _answer(self, wire: Wire, request: Request) -> None:
        while isinstance(await wire.next_event(), h11.Data):
            pass
        text = "x" * LARGE
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
        task["artifacts"] = [{"artifactId": "a", "parts": [{"text": text}]}]
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        wire.send(h11.Response(status_code=200, headers=headers))
        wire.send(h11.Data(data=body))
        await wire.writer.drain()
        wire.send(h11.EndOfMessage())


@pytest.fixture(scope="module")
def agent() -> Iterator[Large]:
    with Large() as agent:
        yield agent


def connect(stack: ExitStack, url: str) -> socket.socket:
    host, _, port = url.partition("://")[2].partition(":")
    return stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))


@pytest.mark.parametrize("port", ["otlp", "admin"])
def test_a_crowd_at_another_port_leaves_connections_for_clients(agent: Large, tmp_path: Path, port: str) -> None:
    store = tmp_path / "turns.db"
    with Proxy(agent.url, store, telemetry=True, command=FEW_FILES) as proxy, ExitStack() as stack:
        crowded = proxy.otlp_url if port == "otlp" else proxy.admin_url
        assert crowded is not None
        for _ in range(300):
            with suppress(ConnectionError):
                connect(stack, crowded).sendall(b"GET / HTTP/1.1\r\n")
        with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client:
            assert {client.get(f"{proxy.url}/{number}").status_code for number in range(20)} == {200}
