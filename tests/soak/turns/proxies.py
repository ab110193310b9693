"""The proxies of the turns: one, one of several processes, or several on one PostgreSQL; and what receives at the
clients' side."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
from a2a_eval_proxy.net.http_server import HttpServer
from support.patience import PATIENCE_S
from support.ports import held_ports
from support.postgres_server import running_postgres
from support.processes import ChildProcess
from support.proxy import Proxy

from .agent import REST_PATH, RPC_PATH
from .clients import Entrance, Hooks

RUN = "turns"
_SUITE = "suite: turns\nevaluators: [tool_error]\n"


@contextmanager
def running_agent() -> Iterator[tuple[str, str]]:
    """Its URL, and the address of its gRPC port."""
    unrecorded = {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"}  # spans that nobody reads take a fifth of the time
    with ChildProcess([sys.executable, "-m", "soak.turns.agent"], environment=unrecorded) as agent:
        ready = agent.wait_for(r"listening on (\S+), gRPC (\S+)")
        yield ready[1], ready[2]
        assert agent.process.stdin is not None
        agent.process.stdin.close()


class Proxies:
    """Some proxies with one store, before the agent."""

    def __init__(self, proxies: list[Proxy], push_ports: list[int], *, transcode: bool) -> None:
        self._proxies = proxies
        self._push_ports = push_ports
        self._transcode = transcode

    def entrances(self) -> list[Entrance]:
        rpc, rest = ("/", "") if self._transcode else (RPC_PATH, REST_PATH)
        return [Entrance(one.url + rpc, one.url + rest, one.grpc_address) for one in self._proxies]

    def push_ports(self) -> list[int]:
        return self._push_ports

    def turns(self, **query: Any) -> list[dict[str, Any]]:
        """The stored turns of the run."""
        return self._proxies[0].turns(run=RUN, limit=1000, **query)

    def flush(self) -> None:
        """Waits until all that is captured is stored and scored."""
        for one in self._proxies:
            one.flush()

    def stderr(self) -> str:
        return "\n".join(one.stderr() for one in self._proxies)


@contextmanager
def running_proxies(
    agent: tuple[str, str], push_url: str, folder: Path, *, count: int, processes: int, transcode: bool, command: Path
) -> Iterator[Proxies]:
    """`count` proxies of so many processes each; more than one share a PostgreSQL."""
    (folder / "suite.yaml").write_text(_SUITE)
    with ExitStack() as stack:
        ports = stack.enter_context(held_ports(count))
        arguments = ["--run", RUN, "--suite", folder / "suite.yaml", "--log-level", "warning", "--quiet"]
        arguments += ["--grpc", "127.0.0.1:0", "--push-url", push_url, "--push-allow", "127.0.0.1"]
        if processes > 1:
            arguments += ["--processes", str(processes)]
        if transcode:
            arguments += ["--transcode"]
        if count > 1:
            arguments += ["--store", stack.enter_context(running_postgres()).new_database()]
        upstream = f"grpc://{agent[1]}" if transcode else agent[0]
        proxies = [
            stack.enter_context(
                Proxy(
                    upstream,
                    folder / "turns.db",
                    *map(str, arguments),
                    *("--push-listen", f"127.0.0.1:{port}"),
                    command=[sys.executable, command],  # as users start it
                )
            )
            for port in ports
        ]
        yield Proxies(proxies, ports, transcode=transcode)


@asynccontextmanager
async def receiving(hooks: Hooks, push_ports: Callable[[], list[int]], seed: int) -> AsyncIterator[str]:
    """One port for the clients' webhooks below /hook, and for the notifications of the agent below /push: each goes
    on to any of the proxies, as through the service before their replicas. Yields its URL."""
    dice = Random(f"{seed}/notifications")
    unkept = httpx.Limits(max_connections=None, max_keepalive_connections=0)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        status, answer = 200, b""
        if scope["path"].startswith("/hook"):
            hooks.take(body)
        else:
            url = f"http://127.0.0.1:{dice.choice(push_ports())}{scope['path']}"
            headers = [(name, value) for name, value in scope["headers"] if not re.match(rb"host|content-length", name)]
            response = await client.request(scope["method"], url, content=body, headers=headers)
            status, answer = response.status_code, response.content
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": answer})

    server = HttpServer(app, "127.0.0.1:0", shutdown_timeout_s=1)
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S, limits=unkept) as client:
        await server.start()
        try:
            yield server.url
        finally:
            await server.stop()
