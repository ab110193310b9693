"""Memory that clients can make the proxy hold is bounded in all, and what passes unread still passes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from support.proxy import Proxy

LARGE, HELD = 28 * 1024 * 1024, 30 * 1024 * 1024
"""Either may be held, not both at a time, and not even if 8 MB of one are still on their way."""


class Agent:
    """Reads bodies, and says how much it got of each path; answers with a completed task."""

    def __init__(self) -> None:
        self.got: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split()[1].decode()
                left = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
                )
                while left:
                    piece = await reader.read(min(left, 65_536))
                    left -= len(piece)
                    self.got[path] = self.got.get(path, 0) + len(piece)
                task = {"id": path, "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
                body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                writer.write(b"content-length: %d\r\n\r\n%b" % (len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def agent_and_proxy(tmp_path: Path) -> AsyncIterator[tuple[Agent, Proxy]]:
    agent = Agent()
    async with await asyncio.start_server(agent.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        proxy = Proxy(f"http://127.0.0.1:{port}", tmp_path / "turns.db")
        await asyncio.to_thread(proxy.__enter__)
        try:
            yield agent, proxy
        finally:
            await asyncio.to_thread(proxy.__exit__, None, None, None)


def message(text: str) -> dict[str, Any]:
    content = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": content}


async def test_large_bodies_pass_unread_where_others_are_being_read(tmp_path: Path) -> None:
    async with agent_and_proxy(tmp_path) as (agent, proxy), httpx.AsyncClient(base_url=proxy.url) as http:
        sent, end = asyncio.Event(), asyncio.Event()

        async def upload() -> AsyncIterator[bytes]:
            yield b"{"
            for _ in range(HELD // 65_536):
                yield b"x" * 65_536
            sent.set()
            await end.wait()
            yield b"x"

        headers = {"content-length": str(HELD + 2), "content-type": "application/json"}
        uploading = asyncio.create_task(http.post("/one", content=upload(), headers=headers))
        await sent.wait()

        large = message("y" * LARGE)
        assert (await http.post("/unread", json=large)).status_code == 200
        assert agent.got["/unread"] > LARGE
        assert (await http.post("/small", json=message("small"))).status_code == 200
        end.set()
        assert (await uploading).status_code == 200
        assert agent.got["/one"] == HELD + 2
        assert (await http.post("/read", json=large)).status_code == 200

        await asyncio.to_thread(proxy.flush)
        turns = {turn["task_id"]: turn for turn in await asyncio.to_thread(proxy.turns)}
    assert {path: len(turn["user_text"]) for path, turn in turns.items()} == {"/unread": 0, "/small": 5, "/read": LARGE}
    assert "request_too_large" in [finding["code"] for finding in turns["/unread"]["findings"]]
    assert "request_too_large" not in [finding["code"] for finding in turns["/read"]["findings"]]
