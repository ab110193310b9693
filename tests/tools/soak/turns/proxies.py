"""The proxies of the turns: one, or several on one PostgreSQL; and what receives at the
clients' side."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

import httpx
from a2a_eval_proxy.net.http_server import HttpServer
from support.patience import PATIENCE_S
from support.ports import held_ports
from support.postgres_server import running_postgres
from support.processes import ChildProcess
from support.proxy import COMMAND, Proxy

from .agent import REST_PATH, RPC_PATH
from .clients import Entrance, Hooks

RUN = "turns"
_SUITE = "suite: turns\nevaluators: [tool_error]\n"
_PORTS = ("--listen", "--admin", "--grpc", "--push-listen")


@contextmanager
def running_agent() -> Iterator[tuple[str, str]]:
    """Its URL, and the address of its gRPC port."""
    unrecorded = {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"}  # spans that nobody reads take a fifth of the time
    with ChildProcess([sys.executable, "-m", "tools.soak.turns.agent"], environment=unrecorded) as agent:
        ready = agent.wait_for(r"listening on (\S+), gRPC (\S+)")
        yield ready[1], ready[2]
        assert agent.process.stdin is not None
        agent.process.stdin.close()


class Proxies:
    """Some proxies with one store before the agent, as a context manager; each keeps its ports when it is killed."""

    def __init__(self, count: int, folder: Path) -> None:
        self._count = count
        self._folder = folder
        self._stack = ExitStack()
        held = self._stack.enter_context(held_ports(count * len(_PORTS)))
        self._ports = [held[at : at + len(_PORTS)] for at in range(0, len(held), len(_PORTS))]
        self._proxies: list[Proxy] = []
        self._past: list[str] = []
        """What killed ones had logged."""

    def before(self, agent_url: str, agent_grpc: str, *, push_url: str) -> None:
        """Names the agent, and the address that it notifies."""
        self._upstream = agent_url
        self._push_url = push_url

    def __enter__(self) -> Self:
        (self._folder / "suite.yaml").write_text(_SUITE)
        self._store = (
            self._stack.enter_context(running_postgres()).new_database()
            if self._count > 1
            else str(self._folder / "turns.db")
        )
        self._proxies = [self._started(number) for number in range(self._count)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._proxies:
            one.__exit__(None, None, None)
        self._stack.close()

    def _started(self, number: int) -> Proxy:
        options = {
            **{flag: f"127.0.0.1:{port}" for flag, port in zip(_PORTS, self._ports[number], strict=True)},
            "--store": self._store,
            "--run": RUN,
            "--suite": str(self._folder / "suite.yaml"),
            "--log-level": "warning",
            "--push-url": self._push_url,
            "--push-allow": "127.0.0.1",
        }
        words = [word for option in options.items() for word in option]
        command = [sys.executable, COMMAND]  # as users start it
        return Proxy(self._upstream, self._folder / "turns.db", *words, command=command).__enter__()

    def entrances(self) -> list[Entrance]:
        """Of all proxies, also of one that is away."""
        return [Entrance(one.url + RPC_PATH, one.url + REST_PATH, one.grpc_address) for one in self._proxies]

    def push_ports(self) -> list[int]:
        return [ports[_PORTS.index("--push-listen")] for ports in self._ports]

    def process_ids(self) -> list[int]:
        return [one.process_id for one in self._proxies]

    def kill(self, dice: Random) -> int:
        """Kills a proxy; its number."""
        number = dice.randrange(len(self._proxies))
        self._proxies[number].kill()
        return number

    def restore(self, number: int) -> None:
        """Starts a killed proxy again."""
        self._past.append(self._proxies[number].stderr())
        self._proxies[number].__exit__(None, None, None)
        self._proxies[number] = self._started(number)

    def turns(self) -> list[dict[str, Any]]:
        """The stored turns of the run."""
        return self._proxies[0].turns(run=RUN, limit=1000)

    def flush(self) -> None:
        """Waits until all that is captured is stored and scored."""
        for one in self._proxies:
            one.flush()

    def stderr(self) -> str:
        return "\n".join([*self._past, *(one.stderr() for one in self._proxies)])


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
            try:
                response = await client.request(scope["method"], url, content=body, headers=headers)
                status, answer = response.status_code, response.content
            except httpx.TransportError:  # it was killed
                status = 502
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": answer})

    server = HttpServer(app, "127.0.0.1:0", shutdown_timeout_s=1)
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S, limits=unkept) as client:
        await server.start()
        try:
            yield server.url
        finally:
            await server.stop()
