"""Random requests over HTTP/2, many at a time, to an agent that does what each says; what differs is a fault.

A request names its plan, so what its client must see is known: nothing of another request, nothing more, nothing less.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from h2.exceptions import ProtocolError

HANG_S = 60.0
AT_ONCE = 60
CONNECTIONS = AT_ONCE
"""One request at a time on each: httpcore waits for ever where another of its requests reads the window for it."""
SIZES = (0, 1, 100, 5_000, 70_000, 400_000)


@dataclass(frozen=True)
class Plan:
    """One request. `body` None: without a body; `sizes` are those of the parts of the response, each after a rest.

    `framing` of the response: "length", "chunks" or "events" (JSON in server-sent events). `cut`: the agent breaks off
    before the end. After `leaves_after` bytes the client resets its stream.
    """

    seed: int
    method: str
    body: tuple[int, ...] | None
    status: int
    framing: str
    sizes: tuple[int, ...]
    cut: bool
    leaves_after: int | None

    @classmethod
    def of(cls, seed: int) -> Plan:
        chance = random.Random(seed)
        method = chance.choice(("POST", "POST", "GET", "PUT", "DELETE", "HEAD"))
        parts = tuple(chance.choice(SIZES) for _ in range(chance.choice((1, 1, 2, 5))))
        status = 200 if method == "HEAD" else chance.choice((200, 200, 200, 404, 204))
        sizes = tuple(chance.choice(SIZES) for _ in range(chance.choice((0, 1, 1, 3, 8))))
        sizes = () if method == "HEAD" or status == 204 else sizes
        cut = bool(sizes) and chance.random() < 0.1
        leaves_after = chance.choice((0, 1, 50_000)) if chance.random() < 0.15 else None
        body = parts if method in ("POST", "PUT") else None
        return cls(seed, method, body, status, chance.choice(("length", "chunks", "events")), sizes, cut, leaves_after)

    def request_parts(self) -> list[bytes]:
        return [_content(f"request {self.seed} {number}", size) for number, size in enumerate(self.body or ())]

    def response_parts(self) -> list[bytes]:
        parts = [_content(f"response {self.seed} {number}", size) for number, size in enumerate(self.sizes)]
        return [b'data: {"x": "%b"}\n\n' % part.hex().encode() for part in parts] if self.framing == "events" else parts


def _content(name: str, size: int) -> bytes:
    return random.Random(name).randbytes(size)


class FuzzAgent:
    """Answers over HTTP/1.1, by the number in the path. A response names what the agent got."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the proxy has left
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection continues."""
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
        fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
        body = await self._body(reader, fields)
        target = lines[0].split()[1]
        if not target.startswith(b"/plan/"):
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return True
        plan, parts = Plan.of(int(target[6:])), Plan.of(int(target[6:])).response_parts()
        got = b"%b %b %b" % (lines[0].split()[0], hashlib.sha256(body).hexdigest().encode(), fields[b"cookie"])
        head = b"HTTP/1.1 %d Odd\r\nx-got: %b\r\n" % (plan.status, got)
        if plan.framing == "events":
            head += b"content-type: text/event-stream\r\n"
        chunked = plan.framing != "length" and plan.status != 204
        if chunked:
            head += b"transfer-encoding: chunked\r\n"
        elif plan.status != 204:
            head += b"content-length: %d\r\n" % (sum(map(len, parts)) + plan.cut)
        writer.write(head + b"\r\n")
        for part in parts:
            if chunked and part:
                part = b"%x\r\n%b\r\n" % (len(part), part)
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        if plan.cut:
            return False
        if chunked and plan.method != "HEAD":
            writer.write(b"0\r\n\r\n")
        return True

    async def _body(self, reader: asyncio.StreamReader, fields: dict[bytes, bytes]) -> bytes:
        if b"transfer-encoding" not in fields:
            return await reader.readexactly(int(fields.get(b"content-length", b"0")))
        body = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return body


@asynccontextmanager
async def fuzz_agent() -> AsyncIterator[str]:
    """The URL of a `FuzzAgent`."""
    server = await asyncio.start_server(FuzzAgent().serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def faults(seed: int, requests: int, url: str, *, http2: bool = True, hang_s: float = HANG_S) -> list[str]:
    """Send `requests` requests through the proxy at `url`, many at a time; what was not as their plans say.

    `hang_s`: after that time a request has no end.
    """
    numbers = iter(range(seed * 1_000_000, seed * 1_000_000 + requests))
    found: list[str] = []

    async def work(client: httpx.AsyncClient) -> None:
        for number in numbers:
            plan = Plan.of(number)
            try:
                async with asyncio.timeout(hang_s):
                    problem = await _problem(client, url, plan)
            except TimeoutError:
                problem = "has no end"
            if problem:
                found.append(f"{plan}: {problem}")

    limits = httpx.Limits(max_connections=1 if http2 else None)
    clients = [
        httpx.AsyncClient(http1=not http2, http2=http2, limits=limits, timeout=None, trust_env=False)
        for _ in range(CONNECTIONS)
    ]
    try:
        await asyncio.gather(*(work(client) for client in clients for _ in range(AT_ONCE // CONNECTIONS)))
    finally:
        for client in clients:
            await client.aclose()
    return found


async def _problem(client: httpx.AsyncClient, url: str, plan: Plan) -> str:
    """What differs from the plan; "" where nothing does."""
    parts = plan.request_parts()

    async def upload() -> AsyncIterator[bytes]:
        for part in parts:
            yield part
            await asyncio.sleep(0)

    content: Any = None if plan.body is None else upload() if len(parts) > 1 else parts[0]
    cookie = f"token={plan.seed}"
    expected, received = b"".join(plan.response_parts()), b""
    try:
        async with client.stream(
            plan.method, f"{url}/plan/{plan.seed}", content=content, headers={"cookie": cookie}
        ) as response:
            got = f"{plan.method} {hashlib.sha256(b''.join(parts)).hexdigest()} {cookie}"
            if (response.status_code, response.headers.get("x-got")) != (plan.status, got):
                return f"the head is {response.status_code} {response.headers}"
            async for piece in response.aiter_raw():
                received += piece
                if plan.leaves_after is not None and len(received) >= plan.leaves_after:
                    return "" if expected.startswith(received) else "the body is another one"
    except (httpx.ProtocolError, ProtocolError) as error:
        if not plan.cut:
            return f"the response is cut: {error!r}"
        return "" if expected.startswith(received) else "the body before the cut is another one"
    if plan.cut:
        return "the cut of the agent looks like an end"
    return "" if received == expected else f"{len(received)} of {len(expected)} bytes, or others"
