"""An agent that cannot be reached is logged once, and once more when it answers again."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import httpx
import pytest
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.settings.settings import Settings


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


async def test_an_outage_is_logged_once_and_so_is_its_end(
    tmp_path: Path, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "a2a_eval_proxy")
    upstream = f"http://127.0.0.1:{port}"
    settings = Settings(
        upstream=upstream, listen="127.0.0.1:0", admin="127.0.0.1:0", otlp=None, store=str(tmp_path / "turns.db")
    )
    async with run_proxy(settings) as proxy, httpx.AsyncClient(base_url=proxy.url) as client:
        assert [(await client.get("/v1/tasks")).status_code for _ in range(3)] == [502, 502, 502]
        async with await asyncio.start_server(answer, "127.0.0.1", port):
            assert [(await client.get("/v1/tasks")).status_code for _ in range(2)] == [404, 404]
    down, up = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert down.startswith(f"the agent at {upstream} cannot be reached: ")
    assert up == f"the agent at {upstream} answers again"
