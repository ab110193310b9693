"""One round of bytes at the ports of a proxy process: whatever comes, each keeps listening, and /readyz is right."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from random import Random

import httpx
from agents.raw_server import RawServer
from support.ports import held_ports
from support.proxy import Proxy

from ..rounds import SHORT_TURNS, port_of, proxy_process
from ..sockets import Line
from .seeds import HTTP2_PORTS, PORTS, stream

_AT_ONCE = 4
"""Connections to each port."""
_READ_S = 0.2
"""For so long a client waits for an answer that may never come."""
_LOOK_AFTER = 50
"""Connections to a port, before it and /readyz are checked."""
_LISTENS_WITHIN_S = 60.0
_ENDED = re.compile(r"^.*(?:ended unexpectedly|does not start).*$", re.MULTILINE)
_PROBE = {
    "data": b"TRACE / HTTP/1.1",
    "otlp": b"POST /v1/traces HTTP/1.1\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0",
    "push": b"POST /push/none HTTP/1.1\r\ncontent-length: 0",
    "admin": b"GET /healthz HTTP/1.1",
}
_EXPECTED = {"data": b"HTTP/1.1 405 ", "otlp": b"HTTP/1.1 200 ", "push": b"HTTP/1.1 404 ", "admin": b"HTTP/1.1 200 "}
_PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00still on"
_PONG = b"\x00\x00\x08\x06\x01\x00\x00\x00\x00still on"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_ANSWER = b"HTTP/1.1 200 Said\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


async def run_octets_round(
    seed: int, index: int, connections: int, patience_s: float, findings: list[str]
) -> Counter[str]:
    """Plays the round: so many connections to each port. Returns how often connections ended in which way, by port."""
    with held_ports(2) as (otlp_grpc, push):
        agent = _Agent(Random(f"{seed}/{index}/agent"))
        await asyncio.to_thread(agent.__enter__)
        ways = ("--grpc", "127.0.0.1:0", "--otlp-grpc", f"127.0.0.1:{otlp_grpc}", "--no-evaluate")
        webhooks = ("--push-url", f"http://127.0.0.1:{push}/push", "--push-listen", f"127.0.0.1:{push}")
        options = (*ways, *webhooks, "--negotiate", "always", *SHORT_TURNS)
        async with proxy_process(findings, agent.url, *options, telemetry=True) as proxy:
            urls = {"data": proxy.url, "otlp": proxy.otlp_url, "admin": proxy.admin_url}
            urls["grpc"] = f"http://{proxy.grpc_address}"
            numbers = {"otlp-grpc": otlp_grpc, "push": push, **{name: port_of(url) for name, url in urls.items()}}
            game = _Game(seed, index, connections, findings, proxy, numbers)
            await asyncio.gather(*(game.attack(port) for port in PORTS))
            await asyncio.to_thread(agent.__exit__, None, None, None)
            if ended := _ENDED.search(proxy.stderr()):
                findings.append(f"a listener ended: {ended[0]}")
    return game.ends


class _Game:
    def __init__(
        self, seed: int, index: int, connections: int, findings: list[str], proxy: Proxy, numbers: dict[str, int]
    ) -> None:
        """`numbers`: of the ports, by their names."""
        self._seed = seed
        self._index = index
        self._connections = connections
        self._findings = findings
        self._proxy = proxy
        self._numbers = numbers
        self.ends: Counter[str] = Counter()

    async def attack(self, port: str) -> None:
        """All connections to one port, looking after it now and then."""
        for first in range(0, self._connections, _LOOK_AFTER):
            batch = range(first, min(first + _LOOK_AFTER, self._connections))
            queue = iter(batch)
            try:
                await asyncio.gather(*(self._send(port, queue) for _ in range(_AT_ONCE)))
            except ConnectionRefusedError:
                pass  # told by what follows
            await self._look(port, batch)
            if self._findings:
                return

    async def _send(self, port: str, queue: Iterator[int]) -> None:
        for number in queue:
            dice = Random(f"{self._seed}/{self._index}/octets/{port}/{number}")
            data = stream(dice, port)
            line = await Line.connect(self._numbers[port])
            end = "closed by the client"
            try:
                async with asyncio.timeout(_READ_S):
                    at = dice.randrange(len(data) + 1) if dice.random() < 0.3 else len(data)
                    await line.send(data[:at])
                    await asyncio.sleep(0)
                    await line.send(data[at:])
                    if dice.random() < 0.7:
                        line.half_close()
                    while await line.receive():
                        pass
                    end = "closed by the proxy"
            except TimeoutError:
                pass
            except OSError:
                end = "reset"
            finally:
                line.close(reset=dice.random() < 0.3)
            self.ends[f"{port} {end}"] += 1

    async def _look(self, port: str, batch: range) -> None:
        """Reports a port on which no process listens, and that /readyz has not said so."""
        try:
            ready = await asyncio.to_thread(self._proxy.readiness)
        except httpx.HTTPError:
            ready = 0
        try:
            async with asyncio.timeout(_LISTENS_WITHIN_S):
                problem = await self._problem(port)
        except (OSError, TimeoutError) as error:
            problem = repr(error)
        again = f"connections {batch.start} to {batch.stop - 1} of seed {self._seed}, round {self._index}"
        if problem:
            said = "/readyz lies" if ready == 200 else f"/readyz says {ready}"
            self._findings.append(f"after {again} to the port {port}: {problem}; {said}")
        elif ready != 200:
            self._findings.append(f"after {again} to the port {port}: /readyz says {ready}")

    async def _problem(self, port: str) -> str:
        """What is wrong with the answer to a request; "" if nothing is. Raises OSError."""
        line = await Line.connect(self._numbers[port])
        answer = b""
        try:
            if port in HTTP2_PORTS:
                await line.send(_PREFACE + _PING)
                while _PONG not in answer and (data := await line.receive()):
                    answer += data
                return "" if _PONG in answer else f"a ping is answered with {answer[:200]!r}"
            await line.send(_PROBE[port] + b"\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            while data := await line.receive():
                answer += data
            return "" if answer.startswith(_EXPECTED[port]) else f"a request is answered with {answer[:200]!r}"
        finally:
            line.close()


class _Agent(RawServer):
    """Answers something, or bytes that are no answer."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until its answer is none; a request with a body is taken for several."""
        answer = _ANSWER
        while answer.startswith(b"HTTP/1.1 "):
            await reader.readuntil(b"\r\n\r\n")
            at = self._dice.randrange(len(_ANSWER))
            broken = _ANSWER[:at] + self._dice.randbytes(3) + _ANSWER[at + 3 :]
            answer = self._dice.choice((_ANSWER, _ANSWER, broken, self._dice.randbytes(65_536)))
            writer.write(answer)
