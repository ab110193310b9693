"""The fortieth agent, hostile, and its clients: `python -m tools.bench.subjects.hostile` prints its URLs.

Then a line `KIND PORT GRPC_PORT` on standard input starts its clients, through a proxy at these ports, and an empty
line ends them, after which it prints how their requests ended. The text of a request says how the agent answers it.

It leaves the CPU to all else, or what it does would delay the others without a proxy, too.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import struct
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import grpc.aio
from a2a.types import SendMessageRequest
from a2a_tool_capture import METADATA_KEY, URI
from h2.errors import ErrorCodes
from h2.events import Event, RequestReceived
from support.raw_http2 import RawConnection, raw_agent

MIB = 1024 * 1024
FLOOD_MIB = 500
ARTIFACT = (
    f'{{"artifactId": "answer", "parts": [{{"text": "%s"}}], "extensions": ["{URI}"], "metadata": {{"{METADATA_KEY}": '
    '[{"id": "1", "name": "lookup_order", "arguments": {"order_id": "ORD-1001"}, "result": "shipped"}]}}'
)
TASK = '{"id": "%d", "contextId": "c%d", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [' + ARTIFACT + "]}"
UPDATE = '{"taskId": "%d", "contextId": "c%d", "append": true, "artifact": ' + ARTIFACT + "}"
CARD = (
    '{"name": "Hostile", "version": "1", "supportedInterfaces": [{"url": "http://127.0.0.1:%d/", "protocolBinding": '
    f'"JSONRPC", "protocolVersion": "1.0"}}], "capabilities": {{"extensions": [{{"uri": "{URI}"}}]}}}}'
)
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
SEND = "/agents/grpc/lf.a2a.v1.A2AService/SendMessage"

Writer = asyncio.StreamWriter
Answer = Callable[[Writer, int], Awaitable[None]]


async def well(writer: Writer, number: int) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "result": {"task": %b}}' % (TASK % (number, number, "Here it is.")).encode()
    writer.write(JSON_HEAD % len(body) + body)


async def hang(writer: Writer, number: int) -> None:
    await asyncio.Event().wait()


async def send_500_mb(writer: Writer, number: int) -> None:
    writer.write(JSON_HEAD % (FLOOD_MIB * MIB) + b'{"jsonrpc": "2.0", "id": 1, "result": "')
    for _ in range(FLOOD_MIB - 1):
        writer.write(b"x" * MIB)
        await writer.drain()
    writer.write(b"x" * MIB)  # cut by the length: a JSON text without an end


async def send_30_mb(writer: Writer, number: int) -> None:
    """As much as the proxy reads."""
    body = b'{"jsonrpc": "2.0", "id": 1, "result": {"task": %b}}'
    body %= (TASK % (number, number, "word " * (6 * MIB))).encode()
    writer.write(JSON_HEAD % len(body) + body)


async def reset(writer: Writer, number: int) -> None:
    writer.write(JSON_HEAD % 4096 + b'{"jsonrpc": "2.0", "id": 1, "result": {"task": ')
    await writer.drain()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()


async def close(writer: Writer, number: int) -> None:
    writer.close()


async def stream(writer: Writer, number: int, text: str) -> None:
    event = b'data: {"jsonrpc": "2.0", "id": 1, "result": {"artifactUpdate": %b}}\n\n'
    data = event % (UPDATE % (number, number, text)).encode()
    chunk = b"%x\r\n%b\r\n" % (len(data), data)
    writer.write(SSE_HEAD)
    while True:
        writer.write(chunk)
        await writer.drain()


async def small_events(writer: Writer, number: int) -> None:
    await stream(writer, number, "word ")


async def large_events(writer: Writer, number: int) -> None:
    await stream(writer, number, "word " * (MIB // 5))


async def drip(writer: Writer, number: int) -> None:
    writer.write(JSON_HEAD % MIB)
    for _ in range(MIB):
        writer.write(b" ")
        await asyncio.sleep(0.01)


async def malformed(writer: Writer, number: int) -> None:
    junk = b'data: {"jsonrpc": [[[[{"result": \xff\xfe\n\ndata\n\ndata: {"artifactUpdate": 1}\n\n' * 200
    writer.write(SSE_HEAD + b"%x\r\n%b\r\nno chunk size\r\n" % (len(junk), junk))


class Kind(NamedTuple):
    """How the agent answers, how many requests a second its clients make, and how many of them wait at most."""

    answer: Answer
    rate: float
    most: int


USUAL = 13
"""Requests a second to any agent."""
WELL = "well"
KINDS = {
    "hangs": Kind(hang, 10 * USUAL, 500),
    "30 MB": Kind(send_30_mb, USUAL, 3),
    "500 MB": Kind(send_500_mb, USUAL, 3),
    "resets": Kind(reset, USUAL, 100),
    "closes": Kind(close, USUAL, 100),
    "small events": Kind(small_events, USUAL, 3),
    "large events": Kind(large_events, USUAL, 3),
    "drips": Kind(drip, USUAL, 100),
    "flooded": Kind(well, 20 * USUAL, 200),
    "malformed": Kind(malformed, USUAL, 100),
    "resets gRPC": Kind(well, USUAL, 100),
}


class Agent:
    """Serves HTTP on `port`."""

    def __init__(self) -> None:
        self._number = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET "):
                    card = (CARD % self.port).encode()
                    writer.write(JSON_HEAD % len(card) + card)
                    continue
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1]) if length else 0)
                kind = re.search(rb'"text": "kind: ([^"]*)"', body)
                self._number += 1
                name = kind[1].decode() if kind else WELL
                answer = KINDS[name].answer if name in KINDS else well
                answering = asyncio.ensure_future(answer(writer, self._number))
                leaving = asyncio.ensure_future(reader.read(1))
                await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
                answering.cancel()
                leaving.cancel()
                await asyncio.gather(answering, leaving, return_exceptions=True)
                await writer.drain()
        writer.close()


def break_off(connection: RawConnection, event: Event) -> None:
    """Reset one call, and end the connection at the next."""
    if isinstance(event, RequestReceived) and len(connection.requests) % 2:
        connection.h2.reset_stream(event.stream_id, ErrorCodes.INTERNAL_ERROR)
    elif isinstance(event, RequestReceived):
        connection.h2.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
        connection.flush()
        connection.transport.close()


class Clients:
    """Those of one kind, until cancelled: an open loop."""

    def __init__(self, name: str, port: int, grpc_port: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self._name, self._kind = name, KINDS.get(name, Kind(well, USUAL, 100))
        self._port, self._grpc_port = port, grpc_port
        self._due: asyncio.Queue[None] = asyncio.Queue()

    async def run(self) -> None:
        client = self._call if self._name.endswith("gRPC") else self._post
        async with asyncio.TaskGroup() as group:
            for _ in range(self._kind.most):
                group.create_task(client())
            loop = asyncio.get_running_loop()
            due = loop.time()
            while True:
                self._due.put_nowait(None)
                due += 1 / self._kind.rate
                await asyncio.sleep(due - loop.time())

    async def _post(self) -> None:
        """Requests on a connection that is opened again when it has ended."""
        message = f'{{"messageId": "m", "role": "ROLE_USER", "parts": [{{"text": "kind: {self._name}"}}]}}'
        method = "SendStreamingMessage" if self._name.endswith("events") or self._name == "malformed" else "SendMessage"
        body = f'{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {{"message": {message}}}}}'
        head = "POST /agents/bad/ HTTP/1.1\r\nhost: 127.0.0.1\r\na2a-version: 1.0\r\ncontent-type: application/json\r\n"
        request = f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()
        writer: Writer | None = None
        while True:
            await self._due.get()
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                writer.write(request)
                answer = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", answer)
                left = int(length[1]) if length else sys.maxsize
                while left and (data := await reader.read(min(left, 256 * 1024))):
                    left -= len(data)
                self.outcomes[answer.split(b" ", 2)[1].decode() if not left else "cut"] += 1
                if not left and b"connection: close" not in answer.lower():
                    continue
            except (OSError, asyncio.IncompleteReadError):
                self.outcomes["ended"] += 1
            except asyncio.CancelledError:
                if writer is not None:
                    writer.transport.abort()
                raise
            if writer is not None:
                writer.transport.abort()
                writer = None

    async def _call(self) -> None:
        message = {"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        request = SendMessageRequest(message=message).SerializeToString()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._grpc_port}") as channel:
            send = channel.unary_unary(SEND)
            while True:
                await self._due.get()
                try:
                    await send(request, metadata=[("a2a-version", "1.0")])
                except grpc.aio.AioRpcError as error:
                    self.outcomes[error.code().name] += 1


async def main() -> None:
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # the benchmark may have real-time priority, by `chrt`
    os.nice(10)
    agent = Agent()
    server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
    agent.port = server.sockets[0].getsockname()[1]
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with raw_agent(break_off) as (grpc_address, _):
        print(f"http://127.0.0.1:{agent.port} grpc://{grpc_address}", flush=True)
        while line := (await lines.readline()).decode().rstrip("\n"):
            name, port, grpc_port = line.rsplit(" ", 2)
            clients = Clients(name, int(port), int(grpc_port))
            running = asyncio.create_task(clients.run())
            await lines.readline()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            print(dict(clients.outcomes), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
