"""Rounds with several agents that have the same ids: of tasks, conversations, webhooks, messages, callers and traces.
Nothing crosses.

Each message, answer, tool call, span, notification, grade and credential names its agent. Agents inspect what they get,
clients and their webhooks what they are answered, and at the end the round inspects turns, trees, runs, the wire, the
metrics, the list of agents, budgets of judges, and commands for one agent.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import httpx
from a2a.types.a2a_pb2 import GetTaskRequest, SendMessageRequest, SendMessageResponse, Task
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from a2a_tool_capture import METADATA_KEY, URI
from google.protobuf.json_format import MessageToJson, ParseDict
from support.ports import held_ports
from support.proxy import Proxy

from .agents_peers import Endpoints, Judge, NamedAgent, marks, task
from .ledger import Fault, Ledger
from .rounds import Result, proxy_process

AGENTS = 4
TASKS, CALLERS = 3, 4
_PATIENCE_S = 30.0
_WIRES = 8
_SPARE = 40
"""Descriptors that the proxy may keep: of calls to agents, of judges, and of threads that read its store."""
_BUDGET = 3
"""Requests to judges that the first agent may cause; the others may cause any number."""
_SERVICE = "/lf.a2a.v1.A2AService"
_CALLS: dict[str, tuple[Any, Any]] = {
    "SendMessage": (SendMessageRequest, SendMessageResponse),
    "GetTask": (GetTaskRequest, Task),
}
"""Of gRPC."""


@dataclass(frozen=True)
class AgentsRound:
    """Of that number of clients, each with some requests, one after the other."""

    seed: int
    index: int
    clients: int = 24
    requests: int = 7


class _Round:
    def __init__(self, plan: AgentsRound) -> None:
        self.plan = plan
        self.ledger = Ledger()
        self.sent: Counter[str] = Counter()
        """Requests that were answered, by agent; the messages among them: `messages`."""
        self.messages: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.asked: list[tuple[str, str, int]] = []
        """Which agent asked which, for the client with which number."""
        self.agents = [NamedAgent(f"a{number}", self.ledger) for number in range(AGENTS)]
        self.endpoints, self.judge = Endpoints(self.ledger), Judge()

    def settings_of(self, agent: NamedAgent) -> dict[str, Any]:
        own = {
            "upstream": agent.url,
            "hosts": f"{agent.name}.test",
            "upstream-header": {"Authorization": f"key of-{agent.name}"},
            "run": f"run-of-{agent.name}",
        }
        return own | ({"judge_budget": f"{_BUDGET}/d"} if agent is self.agents[0] else {})

    def report(self, message: str) -> None:
        self.ledger.report(Fault.CROSSED, message)

    async def client(self, proxy: Proxy, channels: dict[str, grpc.aio.Channel], number: int) -> None:
        """Requests to agents at random. Whoever has not asked for a task's calls, in this agent, gets none."""
        dice = Random(f"{self.plan.seed}/{self.plan.index}/{number}")
        asked: set[tuple[str, str]] = set()
        headers = {"a2a-version": "1.0", "x-api-key": f"caller {number % CALLERS} {number}", "cookie": f"s={number}"}

        async def ask(name: str, method: str, task_id: str, manner: str = "at once", *, asks: bool = False) -> None:
            text = f"for of-{name} {manner} {number % CALLERS}"
            message = {"messageId": f"{task_id} {number}", "role": "ROLE_USER", "parts": [{"text": text}]}
            params: dict[str, Any] = {"id": task_id} if method == "GetTask" else {"message": message}
            if method.endswith("Config"):
                hook = f"{self.endpoints.url}/hook/of-{name}/{number}"
                params = {"taskId": task_id, "id": "config"} | ({"url": hook} if method[0] == "C" else {})
            by_host = dice.random() < 0.5
            sent = {**headers, "x-mark": f"of-{name}"} | ({"a2a-extensions": URI} if asks else {})
            if manner == "traced":
                sent["traceparent"] = f"00-{number + 1:032x}-{number + 1:016x}-01"
            over_grpc = method in _CALLS and manner == "at once" and dice.random() < 0.3
            send = self._call if over_grpc else self._post
            where = channels if over_grpc else client
            status, answer = await send(proxy, where, name, method, params, sent, by_host=by_host)  # type: ignore[operator]
            self.ends[str(status)] += 1
            what = f"{method} of {task_id}"
            if status not in (200, "OK") or marks(answer) != ({name} if method[0] != "D" else set()):
                self.report(f"{what} of {name} was answered {status} {answer}")
            elif METADATA_KEY in answer and not asks and (name, task_id) not in asked:
                self.report(f"{what} of {name} shows tool calls for which this client never asked this agent")
            self.sent[name] += 1
            self.messages[name] += "message" in params
            if asks:
                asked.add((name, task_id))

        async with httpx.AsyncClient(trust_env=False, timeout=_PATIENCE_S) as client:
            two = dice.sample([agent.name for agent in self.agents], 2)
            for name in two:  # tasks under way have the same id with both
                await ask(name, "SendMessage", f"w{number}", "slowly")
            if not number % CALLERS:
                for name in two:
                    await ask(name, "CreateTaskPushNotificationConfig", f"w{number}")
                await ask(two[0], "DeleteTaskPushNotificationConfig", f"w{number}")
                await self._notify(client, two, number)
                await ask(two[0], "SendMessage", f"x{number}", f"asking {two[1]} {number}")
                self.asked.append((two[0], two[1], number))
                self.sent[two[1]] += 1
                self.messages[two[1]] += 1
            for name in two:
                await ask(name, "GetTask", f"w{number}")
            # one span asks both
            await asyncio.gather(*(ask(name, "SendMessage", f"s{number}", "traced") for name in two))
            for _ in range(self.plan.requests):
                name, task_id = f"a{dice.randrange(AGENTS)}", f"t{dice.randrange(TASKS)}"
                method = dice.choice(("SendMessage", "SendStreamingMessage", "GetTask"))
                await ask(name, method, task_id, asks=dice.random() < 0.3)

    @staticmethod
    async def _post(
        proxy: Proxy, client: httpx.AsyncClient, name: str, method: str, params: Any, sent: Any, *, by_host: bool
    ) -> tuple[int, str]:
        url = f"{proxy.url}/" if by_host else f"{proxy.url}/agents/{name}/"
        sent = sent | ({"host": f"{name}.test"} if by_host else {})
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = await client.post(url, json=body, headers=sent)
        return answer.status_code, answer.text

    @staticmethod
    async def _call(
        proxy: Proxy,
        channels: dict[str, grpc.aio.Channel],
        name: str,
        method: str,
        params: Any,
        sent: Any,
        *,
        by_host: bool,
    ) -> tuple[str, str]:
        request, response = _CALLS[method]
        path = f"{_SERVICE}/{method}" if by_host else f"/agents/{name}{_SERVICE}/{method}"
        channel = channels[name if by_host else ""]
        call = channel.unary_unary(path, request.SerializeToString, response.FromString)
        try:
            answer = await call(ParseDict(params, request()), metadata=tuple(sent.items()), timeout=_PATIENCE_S)
        except grpc.aio.AioRpcError as error:
            return error.code().name, str(error.details())
        return "OK", MessageToJson(answer)

    async def _notify(self, client: httpx.AsyncClient, two: Sequence[str], number: int) -> None:
        """Both agents notify of their tasks with the same id; the webhook of the first is deleted."""
        gone, there = (next(agent for agent in self.agents if agent.name == name) for name in two)
        for agent, status in ((gone, 404), (there, 200)):
            url = agent.hooks[f"w{number}"]
            note = {"task": task(agent.name, f"w{number}", with_calls=True)}
            answers = [await client.post(url, json=note)]
            if agent is there:  # no other agent may use it
                answers.append(await client.post(url.replace(f"/{there.name}/", f"/{gone.name}/"), json=note))
            found = [answer.status_code for answer in answers]
            arrived = self.endpoints.arrived[f"/hook/of-{agent.name}/{number}"]
            if found != [status, 404][: len(found)] or arrived != (status == 200):
                self.report(f"notifications of {agent.name} were answered {found}, and {arrived} arrived")

    def reckon(self, proxy: Proxy) -> None:
        """Inspect what the proxy knows."""
        proxy.flush()
        turns = proxy.turns(limit=500)
        for turn in turns:
            name = turn["agent_name"]
            whole = json.dumps({key: value for key, value in turn.items() if key not in ("agent_name", "agent")})
            calls = 2 if "traced" in turn["user_text"] else 1 - ("asking" in turn["user_text"])
            judged = [one["label"] for one in turn["evaluations"]]
            if marks(whole) != {name} or turn["run"] != f"run-of-{name}":
                self.report(f"a turn of {name} has what is {marks(whole)}: {whole}")
            elif turn["agent"] != next(agent.url for agent in self.agents if agent.name == name):
                self.report(f"a turn of {name} names the upstream {turn['agent']}")
            elif len(turn["tool_calls"]) != max(calls, 1):
                self.report(f"a turn of {name} has {len(turn['tool_calls'])} calls: {whole}")
            elif judged != [None] and not (judged == ["over_budget"] and name == self.agents[0].name):
                self.report(f"a turn of {name} was not judged: {whole}")
        found = Counter(turn["agent_name"] for turn in turns)
        if found != +self.messages:
            self.report(f"turns by agent: {dict(found)}; messages: {dict(self.messages)}")
        if self.judge.asked[f"of-{self.agents[0].name}"] != _BUDGET:
            self.report(f"the first agent has a budget of {_BUDGET} requests to judges: {dict(self.judge.asked)}")
        for asking, other, number in self.asked:
            texts = f"for of-{asking} asking {other} {number}", f"for of-{other} asked {number}"
            ids = [next(turn["turn_id"] for turn in turns if turn["user_text"].startswith(text)) for text in texts]
            root, shown = (tree := proxy.get(f"/api/turns/{ids[1]}/tree"))["root"], tree["totals"]
            edge = root["turn_id"], *((one["turn_id"], one["asked"]["certain"]) for one in root["children"])
            if edge != (ids[0], (ids[1], True)) or shown["turns"] != 2:
                self.report(f"{asking} asked {other}, {ids}: {json.dumps(tree)}")
        self._inspect_doors(proxy, found)
        for turn in turns[-_WIRES:]:  # of the oldest, before there were too many
            wire = httpx.get(f"{proxy.admin_url}/api/turns/{turn['turn_id']}/wire", trust_env=False)
            if not marks(wire.text) <= {turn["agent_name"]}:
                self.report(f"the wire of a turn of {turn['agent_name']} has what is of another: {wire.text}")
        kept = {agent.name: self.sent[agent.name] for agent in self.agents}
        until = time.monotonic() + _PATIENCE_S
        while (counted := self._counted(proxy)) != kept:
            if time.monotonic() > until:
                self.report(f"requests by agent: {kept}; counted: {counted}")
                return
            time.sleep(0.1)

    def _inspect_doors(self, proxy: Proxy, found: Counter[str]) -> None:
        """What doors show of one agent, and what is exported."""
        for item in proxy.get("/api/agents")["items"]:
            if not marks(json.dumps(item)) <= {item["name"]}:
                self.report(f"the list of agents has of {item['name']}: {item}")
        for name in found:
            runs = [run["name"] for run in proxy.get("/api/runs", agent=name)["items"]]
            shown = Counter(turn["agent_name"] for turn in proxy.turns(agent=name, limit=500))
            if runs != [f"run-of-{name}"] or shown != {name: found[name]}:
                self.report(f"of {name} are shown the runs {runs} and turns of {dict(shown)}, not {found[name]}")

    def _counted(self, proxy: Proxy) -> dict[str, int]:
        found = re.findall(r'agent_requests_total\{agent="(\w+)"\} (\d+)', proxy.get_text("/metrics"))
        return {name: int(number) for name, number in found}


async def run_agents_round(plan: AgentsRound) -> Result:
    """Plays the round."""
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        one = _Round(plan)

        for agent in one.agents:
            calls = grpc.aio.server()
            add_A2AServiceServicer_to_server(agent.servicer(), calls)
            agent.grpc_address = f"127.0.0.1:{calls.add_insecure_port('127.0.0.1:0')}"
            await calls.start()
            stack.push_async_callback(calls.stop, 0)
            await stack.enter_async_context(agent)
        await stack.enter_async_context(one.endpoints)
        await stack.enter_async_context(one.judge)
        judge = {"base_url": f"{one.judge.url}/v1", "model": "judge"}
        (folder / "suite.json").write_text(json.dumps({"suite": "s", "judge": judge, "evaluators": ["helpfulness"]}))
        agents = {agent.name: one.settings_of(agent) for agent in one.agents}
        (folder / "agents.yaml").write_text(json.dumps({"agents": agents}))
        (port,) = stack.enter_context(held_ports(1))
        push = ("--push-url", f"http://127.0.0.1:{port}/push", "--push-listen", f"127.0.0.1:{port}")
        ports = ("--grpc", "127.0.0.1:0", *push, "--push-allow", "127.0.0.1")
        options = ("--negotiate", "always", "--suite", str(folder / "suite.json"), "--trace-wait", "1")
        upstream = str(folder / "agents.yaml")
        watch = await stack.enter_async_context(
            proxy_process(
                one.ledger,
                upstream,
                *ports,
                *options,
                telemetry=True,
                config=True,
                spare_descriptors=_SPARE,
            )
        )
        proxy = watch.proxy
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=_PATIENCE_S))
        channels = {}
        for name in ("", *(agent.name for agent in one.agents)):
            authority = [("grpc.default_authority", f"{name}.test")] if name else []
            channels[name] = grpc.aio.insecure_channel(proxy.grpc_address, authority)
            await stack.enter_async_context(channels[name])
        for agent in one.agents:
            agent.meets(http, proxy.url, proxy.otlp_url)
        clients = (one.client(proxy, channels, number) for number in range(plan.clients))
        await asyncio.gather(*clients)
        await asyncio.to_thread(one.reckon, proxy)
        for server in (*one.agents, one.endpoints, one.judge):
            server.hang_up()
    return Result(
        one.ledger.findings, time.monotonic() - started, sum(one.ends.values()), Counter(one.ends), watch.peak
    )
