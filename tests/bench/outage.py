"""Memory of a proxy while its PostgreSQL store is away, and when it comes back: run by hand, some minutes.

`python -m bench.outage` in tests/, with the text of the messages (`ascii`, `emoji`), how many, and further flags of
`serve`. The agent answers with the text that it gets, so a turn holds it twice.
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
from pathlib import Path
from typing import Any

import httpx
from support.postgres_server import running_postgres

CHARACTERS = 30_000
TEXTS = {
    "ascii": "a" * CHARACTERS,
    "emoji": "\U0001f600" + "a" * (CHARACTERS - 1),
    "all-emoji": "\U0001f600" * CHARACTERS,
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


def _memory(pid: int) -> dict[str, int]:
    """VmRSS and VmHWM in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return {name: int(size) // 1024 for name, size in re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", status)}


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
            print("start", _memory(proxy.pid))
            postgres.stop()
            async with httpx.AsyncClient(timeout=60) as client:
                await _send(client, data.group(1), text, turns, proxy.pid, admin.group(1))
                postgres.start()
                begun = time.monotonic()
                while (left := await _metrics(client, admin.group(1)))[
                    "queue_depth"
                ] and time.monotonic() < begun + 300:
                    await asyncio.sleep(1)
                print(f"recovered in {time.monotonic() - begun:.0f} s", _memory(proxy.pid))
                print({name: value for name, value in left.items() if "turns" in name or "store" in name})
            print((Path(folder) / "log").read_text()[-2000:])
        finally:
            proxy.terminate()
            proxy.wait(60)


async def _send(client: httpx.AsyncClient, url: str, text: str, turns: int, pid: int, admin: str) -> None:
    numbers = iter(range(turns))

    async def send() -> None:
        for number in numbers:
            message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": [{"text": text}]}
            body = {"jsonrpc": "2.0", "id": number, "method": "SendMessage", "params": {"message": message}}
            content = json.dumps(body, ensure_ascii=False).encode()
            headers = {"content-type": "application/json", "a2a-version": "1.0"}
            answer = await client.post(url, content=content, headers=headers)
            assert answer.status_code == 200, answer.text
            if number % 1000 == 999:
                now = await _metrics(client, admin)
                print(number + 1, _memory(pid), f"{now['store_waiting_bytes'] / 1e6:.0f} MB wait,", end=" ")
                print(f"{now['turns_dropped_total']:.0f} dropped", flush=True)

    await asyncio.gather(*(send() for _ in range(8)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("text", choices=TEXTS)
    parser.add_argument("turns", type=int)
    given, others = parser.parse_known_args()
    asyncio.run(measure(TEXTS[given.text], given.turns, others))
