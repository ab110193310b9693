"""Rounds with several agents that have the same ids: of tasks, conversations, messages and callers. Nothing crosses.

Each message, answer, tool call and credential names its agent. Agents inspect what they get, clients their answers,
and at the end the round inspects turns, runs, the wire and the metrics. Meanwhile agents are changed,
removed and added, and in every other round two processes serve.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from os import kill
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from a2a_tool_capture import METADATA_KEY, URI
from support.proxy import Proxy

from .ledger import Fault, Finding
from .rounds import Result

AGENTS = 4
TASKS, CALLERS = 3, 4
_MARK = re.compile(r"\bof-(a\d+)\b")
_CHANGES = 3
_PATIENCE_S = 30.0
_WIRES = 8


@dataclass(frozen=True)
class AgentsRound:
    """Of that number of clients, each with some requests, one after the other."""

    seed: int
    index: int
    clients: int = 24
    requests: int = 12
    timed: bool = False

    @property
    def processes(self) -> int:
        return 1 + self.index % 2


class _Agent:
    """Answers as an agent of A2A 1.0 over JSON-RPC, always with tool calls where it is asked for them."""

    def __init__(self, name: str, faults: list[Finding]) -> None:
        self.name = name
        self.url = ""
        self._faults = faults

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?i)\r\ncontent-length: *(\d+)", head)
                body = (await reader.readexactly(int(length[1]) if length else 0)).decode()
                foreign = {*_MARK.findall(head + body)} - {self.name}
                if foreign:
                    self._faults.append(Finding(Fault.CROSSED, f"{self.name} got what is {foreign}: {head}{body}"))
                if f"key of-{self.name}" not in head:
                    self._faults.append(Finding(Fault.CROSSED, f"{self.name} got not its own credential: {head}"))
                writer.write(self._answer(head, body))
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    def _answer(self, head: str, body: str) -> bytes:
        if head.startswith("GET"):
            interface = {"url": f"{self.url}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            extension = {"uri": URI}
            card = {"name": f"of-{self.name}", "version": "1", "supportedInterfaces": [interface]}
            return _whole({**card, "capabilities": {"streaming": True, "extensions": [extension]}})
        request = json.loads(body)
        params = request["params"]
        message = params.get("message", {})
        task_id = params.get("id") or message["messageId"].partition(" ")[0]
        artifact: dict[str, Any] = {"artifactId": "a", "parts": [{"text": f"answer of-{self.name}"}]}
        if URI in head:
            call = {"id": "1", "name": "look", "arguments": {"what": f"of-{self.name}"}, "result": "found"}
            artifact |= {"extensions": [URI], "metadata": {METADATA_KEY: [call]}}
        done = {"state": "TASK_STATE_COMPLETED"}
        task = {"id": task_id, "contextId": "c", "status": done, "artifacts": [artifact]}
        if request["method"] == "GetTask":
            return _whole({"jsonrpc": "2.0", "id": 1, "result": task})
        if "slowly" in body:
            task = {"id": task_id, "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
            task |= {"metadata": {"by": f"of-{self.name}"}}
        if request["method"] == "SendMessage":
            return _whole({"jsonrpc": "2.0", "id": 1, "result": {"task": task}})
        update = {"taskId": task_id, "contextId": "c", "artifact": artifact}
        events = [{"artifactUpdate": update}, {"statusUpdate": {"taskId": task_id, "contextId": "c", "status": done}}]
        data = "".join(f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': one})}\n\n" for one in events)
        return _framed("text/event-stream", data.encode())


def _whole(payload: dict[str, Any]) -> bytes:
    return _framed("application/json", json.dumps(payload).encode())


def _framed(media_type: str, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        media_type.encode(),
        len(body),
        body,
    )


class _Round:
    def __init__(self, plan: AgentsRound, folder: Path) -> None:
        self.plan = plan
        self.faults: list[Finding] = []
        self.sent: Counter[str] = Counter()
        """Requests that were answered, by agent; the messages among them: `messages`."""
        self.messages: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.agents = [_Agent(f"a{number}", self.faults) for number in range(AGENTS)]
        self.folder = folder / "agents"
        self.folder.mkdir()

    def put(self, agent: _Agent, generation: int = 0) -> None:
        """Write the agent's settings; with another generation, they are changed."""
        own = {
            "upstream": agent.url,
            "hosts": f"{agent.name}.test",
            "upstream-header": {"Authorization": f"key of-{agent.name}", "X-Generation": str(generation)},
            "run": f"run-of-{agent.name}",
        }
        (self.folder / f"{agent.name}.yaml").write_text(json.dumps(own))

    def report(self, message: str) -> None:
        self.faults.append(Finding(Fault.CROSSED, message))

    async def client(self, proxy: Proxy, number: int) -> None:
        """Requests to agents at random. Whoever has not asked for a task's calls, in this agent, gets none."""
        dice = Random(f"{self.plan.seed}/{self.plan.index}/{number}")
        asked: set[tuple[str, str]] = set()
        headers = {"a2a-version": "1.0", "x-api-key": f"caller {number % CALLERS} {number}", "cookie": f"s={number}"}

        async def ask(name: str, method: str, task_id: str, manner: str = "at once", *, asks: bool = False) -> None:
            text = f"for of-{name} {manner}"
            message = {"messageId": f"{task_id} {number}", "role": "ROLE_USER", "parts": [{"text": text}]}
            params = {"id": task_id} if method == "GetTask" else {"message": message}
            by_host = dice.random() < 0.5
            url = f"{proxy.url}/" if by_host else f"{proxy.url}/agents/{name}/"
            sent = {**headers, "x-mark": f"of-{name}"} | ({"host": f"{name}.test"} if by_host else {})
            sent |= {"a2a-extensions": URI} if asks else {}
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = await client.post(url, json=body, headers=sent)
            self.ends[str(answer.status_code)] += 1
            if answer.status_code == 404 and name == self.agents[-1].name:  # it was removed
                return
            self._look(name, f"{method} of {task_id}", answer, shown=asks or (name, task_id) in asked)
            self.sent[name] += 1
            self.messages[name] += method != "GetTask"
            if asks:
                asked.add((name, task_id))

        async with httpx.AsyncClient(trust_env=False, timeout=_PATIENCE_S) as client:
            two = dice.sample([agent.name for agent in self.agents[:-1]], 2)
            for method in ("SendMessage", "GetTask"):  # tasks under way have the same id with both
                for name in two:
                    await ask(name, method, f"w{number}", "slowly")
            for _ in range(self.plan.requests):
                name, task_id = f"a{dice.randrange(AGENTS)}", f"t{dice.randrange(TASKS)}"
                method = dice.choice(("SendMessage", "SendStreamingMessage", "GetTask"))
                await ask(name, method, task_id, asks=dice.random() < 0.3)

    def _look(self, name: str, what: str, answer: httpx.Response, *, shown: bool) -> None:
        marks = {*_MARK.findall(answer.text)}
        if answer.status_code != 200 or marks != {name}:
            self.report(f"{what} of {name} was answered {answer.status_code} {answer.text}")
        elif METADATA_KEY in answer.text and not shown:
            self.report(f"{what} of {name} shows tool calls for which this client never asked this agent")

    async def change(self, proxy: Proxy) -> None:
        """Change agents, remove the last one and add it again, while clients are served."""
        for generation in range(1, _CHANGES + 1):
            for agent in self.agents[: AGENTS - 1 : 2]:
                self.put(agent, generation)
            last = self.agents[-1]
            if generation % 2:
                (self.folder / f"{last.name}.yaml").unlink()
            else:
                self.put(last, generation)
            kill(proxy.children()[0] if self.plan.processes > 1 else proxy.process_id, signal.SIGHUP)
            await asyncio.sleep(0.2)

    def reckon(self, proxy: Proxy) -> None:
        """Inspect what the proxy knows."""
        proxy.flush()
        turns: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = proxy.get("/api/turns", limit=500, **cursor)
            turns += page["items"]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        for turn in turns:
            whole = json.dumps({key: value for key, value in turn.items() if key not in ("agent_name", "agent")})
            marks = {*_MARK.findall(whole)}
            if marks != {turn["agent_name"]} or turn["run"] != f"run-of-{turn['agent_name']}":
                self.report(f"a turn of {turn['agent_name']} has what is {marks}: {whole}")
            elif turn["agent"] != next(agent.url for agent in self.agents if agent.name == turn["agent_name"]):
                self.report(f"a turn of {turn['agent_name']} names the upstream {turn['agent']}")
            elif len(turn["tool_calls"]) != 1:
                self.report(f"a turn of {turn['agent_name']} has {len(turn['tool_calls'])} calls: {whole}")
        found = Counter(turn["agent_name"] for turn in turns)
        if found != +self.messages:
            self.report(f"turns by agent: {dict(found)}; messages: {dict(self.messages)}")
        for turn in turns[-_WIRES:]:  # of the oldest, before there were too many; not of those of a removed agent
            wire = httpx.get(f"{proxy.admin_url}/api/turns/{turn['turn_id']}/wire", trust_env=False)
            if not {*_MARK.findall(wire.text)} <= {turn["agent_name"]}:
                self.report(f"the wire of a turn of {turn['agent_name']} has what is of another: {wire.text}")
        kept = {agent.name: self.sent[agent.name] for agent in self.agents[:-1]}
        until = time.monotonic() + _PATIENCE_S
        while (counted := self._counted(proxy)) != kept:  # processes report what they count each second
            if time.monotonic() > until:
                self.report(f"requests by agent: {kept}; counted: {counted}")
                return
            time.sleep(0.1)

    def _counted(self, proxy: Proxy) -> dict[str, int]:
        found = re.findall(r'agent_requests_total\{agent="(\w+)"\} (\d+)', proxy.get_text("/metrics"))
        return {name: int(number) for name, number in found if name != self.agents[-1].name}


async def run_agents_round(plan: AgentsRound, command: Sequence[str | Path]) -> Result:
    """Plays the round against a proxy started with `command`."""
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        one = _Round(plan, folder)
        for agent in one.agents:
            server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
            stack.callback(server.close)
            agent.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            one.put(agent)
        options = ("--processes", str(plan.processes), "--negotiate", "always", "--log-level", "warning")
        proxy = Proxy(str(one.folder), folder / "turns.db", *options, command=command, agents_dir=True)
        await asyncio.to_thread(proxy.__enter__)
        stack.push_async_callback(asyncio.to_thread, proxy.__exit__, None, None, None)
        clients = (one.client(proxy, number) for number in range(plan.clients))
        await asyncio.gather(*clients, one.change(proxy))
        await asyncio.to_thread(one.reckon, proxy)
        if "Traceback" in (log := proxy.stderr()):
            one.faults.append(Finding(Fault.PROCESS, f"the log has a traceback:\n{log[-3000:]}"))
    seconds = time.monotonic() - started
    return Result(one.faults, seconds, sum(one.ends.values()), Counter(one.ends))
