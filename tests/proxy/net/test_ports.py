"""Servers that end unexpectedly."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_eval_proxy.net.ports import Ports
from support.patience import PATIENCE_S


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def test_an_http_server_is_started_again_until_it_runs(caplog: pytest.LogCaptureFixture) -> None:
    """Who connects meanwhile waits, and who was connected stays so."""
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        ports = Ports(stack)
        server = await ports.open(lambda: HttpServer(hello, "127.0.0.1:0", shutdown_timeout_s=1), "--listen")
        host, _, port = server.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET / HTTP/1.1\r\n")
        server.config.timeout_notify = None  # type: ignore[assignment]  # what compares it with a time ends the server
        while "does not start: TypeError(" not in caplog.text:  # nor does it run when it is started again
            await asyncio.sleep(0)
        assert ports.problems() == [f"nothing listens on {server.address} (--listen); the log says why"]
        async with httpx.AsyncClient(timeout=None) as client:
            waiting = asyncio.ensure_future(client.get(server.url))
            await asyncio.sleep(0)
            server.config.timeout_notify = 0
            assert (await waiting).text == "hello"
        assert ports.problems() == []
        writer.write(b"Host: x\r\nConnection: close\r\n\r\n")
        assert b"200 OK" in await reader.read()
        writer.close()
