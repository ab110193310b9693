"""Two proxies without evaluation and three workers over one PostgreSQL store, any of which may be killed."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
from e2e.streams import HEADERS
from support.patience import PATIENCE_S
from support.processes import ChildProcess
from support.proxy import COMMAND, READY
from support.raw_a2a import RPC, Wire

WORKER_READY = r"worker ready: "
CASE_HEADERS = {**HEADERS, "A2A-Eval-Case": "weather"}

PLUGIN = '''\
"""A metric that waits, as one that asks a judge does; at first until the test lets it continue."""
import asyncio
from pathlib import Path
from tool_call_evaluators import metric

@metric()
async def patience(case) -> bool:
    while not Path(__file__).with_name("go").exists():
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    return len(case.tool_calls) == 2
'''
SUITE = """\
suite: chaos
plugins: [patience.py]
evaluators: [tool_error, patience, {tool_trajectory: {scope: conversation, mode: in_order, id: whole}}]
cases:
  - id: weather
    turns: [{user: whatever}]
    expect: {tool_calls: [{name: search, arguments: {q: weather Berlin}}, {name: convert, arguments: {c: 21}}]}
"""
EVALUATORS = ["patience", "tool_error"]


@dataclass
class Said:
    """Texts of messages: `kept` are those that a proxy confirmed to have stored, `unsure` those answered or sent
    when it was killed before it could."""

    kept: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)


class Member:
    """A process that can be killed and comes back."""

    def __init__(self, command: list[str | Path], ready: str) -> None:
        self._command = command
        self._ready = ready
        self._lock = asyncio.Lock()
        self.found: dict[str, str] = {}
        self.told = ""

    async def start(self) -> None:
        self._child = ChildProcess(self._command).__enter__()
        self.found = (await asyncio.to_thread(self._child.wait_for, self._ready)).groupdict()

    async def kill(self) -> None:
        """End it as a crash would, and start it again."""
        async with self._lock:
            await asyncio.to_thread(self._child.kill)
            self._close()
            await self.start()

    async def running(self) -> None:
        """Returns when it is not being restarted."""
        async with self._lock:
            return

    def stop(self) -> None:
        """Ask it to end."""
        self._child.terminate()
        code = self._child.wait(PATIENCE_S)
        self._close()
        assert code == 0, self.told

    def _close(self) -> None:
        self.told += self._child.stderr()
        self._child.stop()


@dataclass
class Fleet:
    """The processes, and the database they share. No turn is scored before `go` is a file."""

    url: str
    proxies: list[Member]
    workers: list[Member]
    go: Path

    def rows(self, statement: str) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(statement).fetchall()


@asynccontextmanager
async def fleet(url: str, upstream: str, folder: Path) -> AsyncIterator[Fleet]:
    """All running, on a database that may be empty: they make its tables together."""
    (folder / "patience.py").write_text(PLUGIN)
    suite = folder / "suite.yaml"
    suite.write_text(SUITE)
    anywhere = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--no-otlp")
    serve = [COMMAND, "serve", "--upstream", upstream, "--store", url, "--no-evaluate", "--run", "chaos", *anywhere]
    work = [COMMAND, "worker", "--store", url, "--suite", suite, "--stalled-after", "2"]
    proxies, workers = [Member(serve, READY) for _ in range(2)], [Member(work, WORKER_READY) for _ in range(3)]
    async with AsyncExitStack() as stack:
        for member in (*proxies, *workers):
            stack.push_async_callback(asyncio.to_thread, member.stop)
        await asyncio.gather(*(member.start() for member in (*proxies, *workers)))
        yield Fleet(url, proxies, workers, folder / "go")


async def keep_talking(proxy: Member, said: Said, goal: int, batch: int, progressed: Callable[[int], None]) -> None:
    """Say things through the proxy, a batch at a time, until it has confirmed `goal` of them to be stored."""
    while len(said.kept) < goal:
        await proxy.running()
        texts = [f"artifact {uuid.uuid4()}" for _ in range(batch)]
        try:
            await _say(proxy.found, texts)
        except (httpx.HTTPError, json.JSONDecodeError):
            said.unsure += texts
        else:
            said.kept += texts
            progressed(len(texts))


async def _say(found: dict[str, str], texts: list[str]) -> None:
    """Returns when all are answered and stored. Raises HTTPError where the proxy is gone."""
    async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:

        async def say(text: str) -> None:
            body = Wire("1.0", "JSONRPC").message(text).body
            answer = await http.post(found["proxy"] + RPC, content=body, headers=CASE_HEADERS)
            answer.raise_for_status()
            assert "task" in answer.json()["result"], answer.text

        await asyncio.gather(*(say(text) for text in texts))
        stored = await http.post(found["admin"] + "/api/flush", params={"timeout": 20})
        stored.raise_for_status()
