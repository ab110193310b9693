"""Memory of a proxy while its PostgreSQL store is away, and when it comes back: run by hand, some minutes.

`python -m bench.outage` in tests/, with the text of the messages (`ascii`, `emoji`), how many, and further flags of
`serve`. The agent answers with the text that it gets, so a turn holds it twice. Memory is that of the
proxy together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from support.postgres_server import running_postgres

TEXTS = {
    "ascii": lambda size: "a" * size,
    "emoji": lambda size: "\U0001f600" + "a" * (size - 1),
    "all-emoji": lambda size: "\U0001f600" * size,
}


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An agent by hand, so that it takes next to no time: any POST is answered with a Message of the same text."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = re.search(rb"(?i)content-length: (\d+)", head)
            body = await reader.readexactly(int(length.group(1))) if length else b""
            reply: Any = {"error": "not found"}
            if body:
                asked = json.loads(body)
                parts = asked["params"]["message"]["parts"]
                message = {"messageId": "m", "role": "ROLE_AGENT", "contextId": "c", "parts": parts}
                reply = {"jsonrpc": "2.0", "id": asked["id"], "result": {"message": message}}
            text = json.dumps(reply, ensure_ascii=False).encode()
            status = b"200 OK" if body else b"404 Not Found"
            writer.write(
                b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(text))
            )
            writer.write(text)
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        pass
    finally:
        writer.close()


class _Memory:
    """MB of a process: now, and the most that was seen."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.peak = 0.0

    async def watch(self) -> None:
        """Look ten times a second."""
        while True:
            self.now()
            await asyncio.sleep(0.1)

    def now(self) -> float:
        found = 0.0
        with suppress(OSError):
            pss = re.search(r"Pss:\s+(\d+) kB", Path(f"/proc/{self._pid}/smaps_rollup").read_text())
            found = int(pss.group(1)) / 1024 if pss else 0.0
        self.peak = max(self.peak, found)
        return found

    def __str__(self) -> str:
        return f"{self.now():.0f} MB, at most {self.peak:.0f} MB"


async def _metrics(client: httpx.AsyncClient, admin: str) -> dict[str, float]:
    found = re.findall(r"^a2a_eval_proxy_(\w+) ([\d.e+]+)$", (await client.get(f"{admin}/metrics")).text, re.MULTILINE)
    return {name: float(value) for name, value in found}


async def measure(text: str, turns: int, flags: list[str]) -> None:
    async with await asyncio.start_server(_answer, "127.0.0.1", 0, limit=1 << 24) as agent:
        await _through_an_outage(agent, text, turns, flags)


async def _through_an_outage(agent: asyncio.Server, text: str, turns: int, flags: list[str]) -> None:
    upstream = f"http://127.0.0.1:{agent.sockets[0].getsockname()[1]}"
    with running_postgres() as postgres, tempfile.TemporaryDirectory() as folder:
        url = postgres.new_database()
        command = [sys.executable, "-m", "a2a_eval_proxy", "serve", "--upstream", upstream, "--store", url]
        command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--otlp", "127.0.0.1:0", *flags]
        with (Path(folder) / "log").open("wb") as log:
            proxy = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert proxy.stdout is not None
            line = (await asyncio.to_thread(proxy.stdout.readline)).decode()
            data, admin = re.search(r"proxy (\S+) ->", line), re.search(r"admin (\S+),", line)
            assert data, (line, (Path(folder) / "log").read_text())
            assert admin
            memory = _Memory(proxy.pid)
            watching = asyncio.create_task(memory.watch())
            print("start", memory)
            postgres.stop()
            async with httpx.AsyncClient(timeout=60) as client:
                await _send(client, data.group(1), text, turns, memory, admin.group(1))
                postgres.start()
                begun = time.monotonic()
                while (left := await _metrics(client, admin.group(1)))[
                    "queue_depth"
                ] and time.monotonic() < begun + 300:
                    await asyncio.sleep(1)
                print(f"recovered in {time.monotonic() - begun:.0f} s", memory)
                watching.cancel()
                print({name: value for name, value in left.items() if "turns" in name or "store" in name})
            print((Path(folder) / "log").read_text()[-1000:])
        finally:
            proxy.terminate()
            proxy.wait(60)


async def _send(client: httpx.AsyncClient, url: str, text: str, turns: int, memory: _Memory, admin: str) -> None:
    numbers = iter(range(turns))

    async def send() -> None:
        for number in numbers:
            message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": text}]}
            body = {"jsonrpc": "2.0", "id": number, "method": "SendMessage", "params": {"message": message}}
            content = json.dumps(body, ensure_ascii=False).encode()
            headers = {"content-type": "application/json", "a2a-version": "1.0"}
            answer = await client.post(url, content=content, headers=headers)
            assert answer.status_code == 200, answer.text
            if number % (turns // 5) == 0:
                now = await _metrics(client, admin)
                print(number + 1, memory, f"{now['store_waiting_bytes'] / 1e6:.0f} MB wait,", end=" ")
                print(f"{now['turns_dropped_total']:.0f} dropped", flush=True)

    await asyncio.gather(*(send() for _ in range(8)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("text", choices=TEXTS)
    parser.add_argument("turns", type=int)
    parser.add_argument("--characters", type=int, default=30_000)
    given, others = parser.parse_known_args()
    asyncio.run(measure(TEXTS[given.text](given.characters), given.turns, others))
