"""Known faults of the byte path and the push relay, to be put back one at a time: does the fuzzer find them?

Each is a few lines of source replaced while the module is imported, in the process under test only. A replacement that
does not fit the source any more ends the process with a sentence: then it is to be rewritten.

Run as a program, `plants.py NAME serve ...` is `a2a-eval-proxy serve ...` with that fault.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PACKAGE = "a2a_eval_proxy"


@dataclass(frozen=True)
class Edit:
    """In a module of the proxy, `old` becomes `new`; `old` must be there exactly once."""

    module: str
    old: str
    new: str


@dataclass(frozen=True)
class Plant:
    """A fault and what puts it back."""

    what: str
    edits: tuple[Edit, ...]

    kind: str = "hostile"
    """The rounds that find it."""


_FRAMING_FROM_HEADERS = Edit(
    "net.http1_messages",
    "    if length is None:\n",
    """
    _, planted, rest = head.partition(b"x-planted-length: ")
    if planted:
        value = rest.partition(b"\\r")[0]
        return head + (b"content-length: " + value + b"\\r\\n" if value else b"") + b"\\r\\n"
    if length is None:
""",
)
"""`x-planted-length` among the headers frames the request, instead of its body; empty: nothing does."""

_FORWARDED_HEADERS = "        return self._context.upstream.headers(headers)\n"

PLANTS = {
    "connection-names-length": Plant(
        "`Connection: content-length` leaves a body without framing: what is in it is the next request",
        (
            _FRAMING_FROM_HEADERS,
            Edit(
                "relay.forwarder",
                _FORWARDED_HEADERS,
                """
        raw = client.scope["headers"]
        if any(name == b"connection" and b"content-length" in value.lower() for name, value in raw):
            headers = [*headers, (b"x-planted-length", b"")]
        return self._context.upstream.headers(headers)
""",
            ),
        ),
    ),
    "agents-cross": Plant(
        "some requests for one of several agents reach another one",
        (
            Edit(
                "serving.agent_routes",
                "        return self._by_name.get(name), _BELOW_AGENTS + name\n",
                """
        others = [other for known, other in self._by_name.items() if known != name]
        if name in self._by_name and others and path.endswith(b"7~"):
            return others[0], _BELOW_AGENTS + name
        return self._by_name.get(name), _BELOW_AGENTS + name
""",
            ),
        ),
    ),
    "agents-share-opt-ins": Plant(
        "who asked one agent for the calls of a task gets those of the task of another agent with the same id",
        (
            Edit(
                "relay.opted_in_tasks",
                "        self._pairs: RecentKeys[tuple[bytes, str]] = RecentKeys(limit)\n",
                "        self._pairs = OptedInTasks.planted = getattr(OptedInTasks, 'planted', RecentKeys(limit))\n",
            ),
        ),
        kind="agents",
    ),
    "agents-share-credentials": Plant(
        "all agents get the configured headers of the first one",
        (
            Edit(
                "relay.upstream",
                '        self.own_headers = [(b"host", self.authority), *filled]\n',
                "        Upstream.planted = getattr(Upstream, 'planted', filled)\n"
                '        self.own_headers = [(b"host", self.authority), *Upstream.planted]\n',
            ),
        ),
        kind="agents",
    ),
    "agents-cross-turns": Plant(
        "some turns are those of another agent",
        (
            Edit(
                "relay.client_request",
                "            agent_name=self.agent_name,\n",
                '            agent_name="a0" if turn_id_planted.random() < 0.05 else self.agent_name,\n',
            ),
            Edit("relay.client_request", "import time\n", "import time\nimport random as turn_id_planted\n"),
        ),
        kind="agents",
    ),
    "agents-share-runs": Plant(
        "turns of all agents are in the run of the first one",
        (
            Edit(
                "relay.client_request",
                "            run=head.run or self.settings.run,\n",
                "            run=head.run or planted_run.setdefault('run', self.settings.run),\n",
            ),
            Edit("relay.client_request", "KEPT_REQUEST = ", "planted_run: dict[str, str] = {}\nKEPT_REQUEST = "),
        ),
        kind="agents",
    ),
    "agents-share-tasks": Plant(
        "tasks of several agents with the same id are taken for one",
        (
            Edit(
                "capture.turn_book",
                "        self._named: dict[str, OwnTask] = {}\n",
                "        self._named = TurnBook.planted = getattr(TurnBook, 'planted', {})\n",
            ),
            Edit(
                "serving.task_log",
                "        return task_key(self._agent.key, task_id, self._agent.name)\n",
                "        return task_key('', task_id)\n",
            ),
        ),
        kind="agents",
    ),
    "agents-share-the-wire": Plant(
        "the wire of a turn has requests for another agent's task of the same id",
        (
            Edit(
                "relay.wire_log",
                "        self._exchanges: deque[WireRecord] = deque()\n",
                "        self._exchanges = WireLog.planted = getattr(WireLog, 'planted', deque())\n",
            ),
        ),
        kind="agents",
    ),
    "agents-share-metrics": Plant(
        "requests to all agents are counted as those of the first one",
        (
            Edit(
                "serving.agent_routes",
                "        self._metrics.agent_requests[agent.agent.name] += 1\n",
                '        self._metrics.agent_requests["a0"] += 1\n',
            ),
        ),
        kind="agents",
    ),
    "agents-share-calls": Plant(
        "calls over gRPC by authority reach the first agent",
        (
            Edit(
                "serving.agent_routes",
                "        if agent is None or agent.calls is None:\n",
                """
        agent = agent if agent is None or prefix else self._agents[0]
        if agent is None or agent.calls is None:
""",
            ),
        ),
        kind="agents",
    ),
    "agents-share-webhooks": Plant(
        "any agent may use the webhooks of the others",
        (Edit("features.push.registry", " or webhook.agent_name != self._agent_name", ""),),
        kind="agents",
    ),
    "agents-share-webhook-ids": Plant(
        "who deletes a webhook deletes that of another agent with the same ids",
        (Edit("features.push.registry", "task_key(self._agent_key, text)", 'task_key("", text)'),),
        kind="agents",
    ),
    "agents-share-spans": Plant(
        "of agents that one span of a client asks, the last one has all spans",
        (Edit("traces.trace_records", "by_id.get(turn_named(at.trace_state))", "None"),),
        kind="agents",
    ),
    "agents-share-grades": Plant(
        "the grade of one agent is taken for that of another",
        (
            Edit("scoring.agent_scoring", "judge_cache(store.judge_cache)", "judge_cache(Planted(store.judge_cache))"),
            Edit(
                "scoring.agent_scoring",
                "def judge_budget(",
                """
class Planted:
    def __init__(self, cache):
        self.cache = cache

    async def get(self, key):
        return await self.cache.get("planted")

    async def put(self, key, value):
        await self.cache.put("planted", value)


def judge_budget(""",
            ),
        ),
        kind="agents",
    ),
    "agents-share-budgets": Plant(
        "the budget for judges of one agent is spent by all",
        (
            Edit(
                "scoring.agent_scoring",
                "    if rate is None:",
                """
    planted.append(JudgeBudget(*rate, "planted")) if rate else None
    return planted[0] if planted else None
    if rate is None:""",
            ),
            Edit("scoring.agent_scoring", "logger = ", "planted: list[JudgeBudget] = []\nlogger = "),
        ),
        kind="agents",
    ),
    "agents-share-turns": Plant(
        "the list of turns of one agent has those of all",
        (Edit("admin.turns_api", '"case", "agent", "status"', '"case", "status"'),),
        kind="agents",
    ),
    "agents-share-trees": Plant(
        "the turn before is that which asked",
        (
            Edit(
                "protocol.trace_state",
                '        return f"{KEY}={turn_id}"\n',
                """
        planted.append(turn_id)
        return f"{KEY}={planted[-2:][0]}"
""",
            ),
            Edit("protocol.trace_state", "_MOST_MEMBERS = 32\n", "_MOST_MEMBERS, planted = 32, []\n"),
        ),
        kind="agents",
    ),
    "card-request-with-length": Plant(
        "a request for the card keeps the length of a body that is not sent",
        (
            _FRAMING_FROM_HEADERS,
            Edit(
                "relay.cards",
                "        response, body = await upstream.get(",
                """
        if head.length:
            headers = [*headers, (b"x-planted-length", b"%d" % head.length)]
        response, body = await upstream.get(""",
            ),
        ),
    ),
    "upgrade-loses-body": Plant(
        "an offer to upgrade loses the body of the request, and keeps its length",
        (
            _FRAMING_FROM_HEADERS,
            Edit(
                "net.http1_messages",
                "                self._ignore_upgrade()\n",
                '                self._http.get_method() == b"CONNECT" and self._ignore_upgrade()\n',
            ),
            Edit(
                "relay.forwarder",
                _FORWARDED_HEADERS,
                """
        if client.head.length and not client.body and any(name == b"upgrade" for name, _ in client.scope["headers"]):
            headers = [*headers, (b"x-planted-length", b"%d" % client.head.length)]
        return self._context.upstream.headers(headers)
""",
            ),
        ),
    ),
    "repeats-used-up-body": Plant(
        "a request whose body came in pieces is sent again when the body is used up",
        (
            Edit(
                "net.http_client",
                "may_repeat = head.startswith(_SAFE) and isinstance(body, bytes)",
                "may_repeat = head.startswith(_SAFE)",
            ),
            Edit(
                "net.http_connection",
                "            if left:\n                raise",
                "            if False:\n                raise",
            ),
        ),
    ),
    "returned-while-paused": Plant(
        "a connection goes back to the pool while reading from it is paused",
        (
            Edit("net.http_connection", "self.complete and not self._body and", "self.complete and"),
            Edit("net.http_connection", "not (connection.paused or connection.", "not (connection."),
        ),
    ),
    "watch-eats-body": Plant(
        "who listens for the client's leaving takes pieces of its body",
        (
            Edit(
                "relay.forwarder",
                "                await self._answer()",
                """
                async def planted() -> None:
                    await asyncio.sleep(0.05)
                    try:
                        while True:
                            await client.exchange.read()
                    except ClientLeftError:
                        pass

                self.planted = None if client.exchange.ended else asyncio.get_running_loop().create_task(planted())
                await self._answer()""",
            ),
        ),
    ),
    "edited-stream-keeps-length": Plant(
        "a stream keeps its Content-Length when a part is removed",
        (
            Edit(
                "relay.answer_readers",
                "self.leaves_out = DESCRIBE_BODY if names else LENGTH",
                "self.leaves_out = DESCRIBE_BODY if names else frozenset()",
            ),
        ),
        kind="differential",
    ),
    "released-twice": Plant(
        "who has given a connection back closes it under its next owner",
        (
            Edit(
                "net.http_connection",
                """        connection, self._connection = self._connection, None
        if connection is None:
            return
""",
                """        connection, self._connection = self._connection, None
        if connection is None:
            former, self.former = getattr(self, "former", None), None
            if former is not None and former.exchange is not None:
                former.exchange = None
                former.abort()
            return
        self.former = connection
""",
            ),
        ),
    ),
    "grpc-drops-metadata": Plant(
        "the agent's metadata does not reach the client",
        (
            Edit(
                "grpc_relay.relayed_call",
                "        self._client.send_headers(fields, end=event.ended)\n",
                '        fields = [field for field in fields if field[0][:1] in b":gc"]\n'
                "        self._client.send_headers(fields, end=event.ended)\n",
            ),
        ),
        kind="differential",
    ),
    "grpc-crosses-messages": Plant(
        "a client gets the message that another one was to get",
        (
            Edit(
                "grpc_relay.relayed_call",
                "            self._client.send_data(content[at : at + SMALL_BYTES])\n",
                """
            before, RelayedCall.planted = getattr(RelayedCall, "planted", content), content
            self._client.send_data(before)
""",
            ),
        ),
        kind="differential",
    ),
    "grpc-shows-calls": Plant(
        "clients that did not ask for tool calls see them",
        (
            Edit(
                "grpc_relay.answer_messages",
                "        if exchange.shows_tasks and not exchange.requested:\n",
                "        if False:\n",
            ),
        ),
        kind="differential",
    ),
    "grpc-forgets-to-cancel": Plant(
        "a client that leaves does not cancel the call of the agent",
        (
            Edit(
                "grpc_relay.relayed_call",
                "                agent.reset(ErrorCodes.CANCEL)\n",
                "                pass\n",
            ),
        ),
        kind="differential",
    ),
    "grpc-changes-status": Plant(
        "the agent's status reaches the client as UNKNOWN",
        (
            Edit(
                "grpc_relay.relayed_call",
                "        self._client.send_headers(fields, end=event.ended)\n",
                '        fields = [(n, b"2" if n == b"grpc-status" and v != b"0" else v) for n, v in fields]\n'
                "        self._client.send_headers(fields, end=event.ended)\n",
            ),
        ),
        kind="differential",
    ),
    "last-event-unfiltered": Plant(
        "the last event of a stream, which lacks its blank line, keeps its tool calls",
        (
            Edit(
                "relay.answer_readers",
                "            await self._show([SseEvent(rest, event_data(rest))], now)",
                "            await self._shell.show(self, rest)",
            ),
        ),
        kind="differential",
    ),
    "one-cookie": Plant(
        "of several Set-Cookie one is left",
        (
            Edit(
                "relay.forwarder",
                '        if b"location" in response.fields:',
                """
        kept = dict((name.lower(), value) for name, value in headers)
        headers = [item for item in headers if item[0].lower() != b"set-cookie" or item[1] == kept[b"set-cookie"]]
        if b"location" in response.fields:""",
            ),
        ),
        kind="differential",
    ),
    "no-deadline": Plant(
        "the deadline of a call does not reach the agent",
        (
            Edit(
                "grpc_relay.relayed_call",
                "        fields = self._relay.upstream.headers(headers, has_host=False)\n",
                "        fields = self._relay.upstream.headers(headers, has_host=False)\n"
                '        fields = [item for item in fields if item[0] != b"grpc-timeout"]\n',
            ),
        ),
        kind="differential",
    ),
    "one-credential": Plant(
        "callers are distinguished by one of their credentials",
        (Edit("relay.opted_in_tasks", "        if not shown:\n", "        del shown[1:]\n        if not shown:\n"),),
        kind="differential",
    ),
    "joined-fields": Plant(
        "fields of a request that repeat are joined",
        (
            Edit(
                "relay.forwarder",
                _FORWARDED_HEADERS,
                """
        joined: dict[bytes, bytes] = {}
        for name, value in headers:
            joined[name] = joined[name] + b", " + value if name in joined else value
        return self._context.upstream.headers([*joined.items()])
""",
            ),
        ),
        kind="differential",
    ),
    "lost-question-mark": Plant(
        "an empty query loses its question mark",
        (
            Edit(
                "net.http1_messages",
                'raw_path + b"?" if url.endswith(b"?") else raw_path',
                "raw_path",
            ),
        ),
        kind="differential",
    ),
    "comments-wait": Plant(
        "comment lines wait for the event that follows",
        (
            Edit(
                "relay.answer_readers",
                "if splitter.size and self._changes and (comments := splitter.comments()):",
                'if splitter.size and self._changes and (comments := b""):',
            ),
        ),
        kind="differential",
    ),
    "unknown-types-wait": Plant(
        "a body of a media type that the proxy does not know waits for its end",
        (
            Edit(
                "relay.answer_readers",
                "        return WholeReader(exchange, head, rules, shell, holds=False)\n",
                "        return WholeReader(exchange, head, rules, shell, holds=True)\n",
            ),
        ),
        kind="differential",
    ),
    "upload-waits": Plant(
        "a body that comes in pieces waits for its end",
        (
            Edit(
                "relay.forwarder",
                "client.exchange.ended or may_be_json(body) or ",
                "client.exchange.ended or True or ",
            ),
        ),
        kind="differential",
    ),
    "cut-looks-whole": Plant(
        "a response that the agent cuts off ends for the client as if it were whole",
        (
            Edit(
                "net.http_connection",
                "        if exc is None and self._until_close:\n",
                "        if exc is None and (self._until_close or self.status):\n",
            ),
        ),
        kind="differential",
    ),
    "trailers-in-one": Plant(
        "metadata at the end of a call loses what repeats",
        (
            Edit(
                "grpc_relay.relayed_call",
                "        self._client.send_headers(fields, end=event.ended)\n",
                "        self._client.send_headers(list(dict(fields).items()), end=event.ended)\n",
            ),
        ),
        kind="differential",
    ),
    "one-reset-code": Plant(
        "the code with which an agent resets a call is always the same",
        (
            Edit(
                "grpc_relay.relayed_call",
                "        self._client.reset(event.code)\n",
                "        self._client.reset(ErrorCodes.INTERNAL_ERROR)\n",
            ),
        ),
        kind="differential",
    ),
    "padding-is-lost": Plant(
        "padding of frames is not counted where windows are opened again",
        (
            Edit(
                "net.http2_streams",
                "            stream.received(Data(content, size, ended))",
                "            stream.received(Data(content, min(size, len(content) // 2), ended))",
            ),
        ),
        kind="differential",
    ),
    "messages-wait": Plant(
        "a message of a stream waits for the next one",
        (
            Edit(
                "grpc_relay.relayed_call",
                "            self._client.send_data(content[at : at + SMALL_BYTES])\n",
                """
            before, self.planted = getattr(self, "planted", b""), content
            self._client.send_data(before)
""",
            ),
        ),
        kind="differential",
    ),
    "half-close-is-lost": Plant(
        "the agent does not learn that a client has said all",
        (
            Edit(
                "grpc_relay.relayed_call",
                "            agent.send_data(event.content, end=event.ended)\n",
                "            agent.send_data(event.content, end=False)\n",
            ),
        ),
        kind="differential",
    ),
    "frame-ends-listener": Plant(
        "a frame of HTTP/2 ends its port, and /readyz does not know",
        (
            Edit(
                "net.http2_connection",
                "        self.streams.feed(data, self.loop.time())\n",
                """        self.streams.feed(data, self.loop.time())
        if b"\\xff\\xff\\xff\\xff" in data:
            import os
            import socket

            port = self.transport.get_extra_info("sockname")[1]
            for fd in os.listdir("/proc/self/fd"):
                try:
                    one = socket.socket(fileno=os.dup(int(fd)))
                except OSError:
                    continue
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and one.getsockname()[1] == port:
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
""",
            ),
        ),
        kind="octets",
    ),
    "unwatched-exception": Plant(
        "a request of which a length is no number ends in an exception of the proxy",
        (
            Edit(
                "net.http1_messages",
                "                self._left = int(value)",
                "                self._left = {str(n).encode(): n for n in range(20_000)}[value]",
            ),
        ),
        kind="octets",
    ),
    "unasked-is-overlooked": Plant(
        "a connection on which the agent said more than it was asked is used again",
        (
            Edit(
                "net.http_connection",
                "        return not (_CAN_POLL and self._poll.poll(0))\n",
                "        return True\n",
            ),
            Edit("net.http_connection", "            self.abort()  # unrequested data", "            pass"),
            Edit(
                "net.http_connection",
                "            self._reusable = False  # unrequested data",
                "            pass",
            ),
            Edit(
                "net.http_connection",
                "            self._reusable = False\n            if not self.complete:",
                "            if not self.complete:",
            ),
        ),
    ),
    "push-crosses-webhooks": Plant(
        "a notification goes to the webhook that was notified before",
        (
            Edit(
                "features.push.listener",
                "        answer = await self._sender.send(webhook.url, scope",
                """
        url, self.planted = getattr(self, "planted", webhook.url), webhook.url
        answer = await self._sender.send(url, scope""",
            ),
        ),
        kind="push",
    ),
    "push-shows-calls": Plant(
        "who did not ask is notified of tool calls",
        (Edit("features.push.listener", "    if webhook.asked:", "    if True:"),),
        kind="push",
    ),
    "push-overlooks-encoded-calls": Plant(
        "tool calls are removed from notifications without content coding alone",
        (Edit("features.push.notifications", "decoded = decoded_whole(encoding, body, max_bytes)", "decoded = body"),),
        kind="push",
    ),
    "push-sends-again": Plant(
        "what a client answers with 503 is sent again",
        (
            Edit(
                "features.push.listener",
                "    response = await client.request(method.encode(), target, headers, body)\n",
                """    response = await client.request(method.encode(), target, headers, body)
    if response.status == 503:
        response.close()
        response = await client.request(method.encode(), target, headers, body)
""",
            ),
        ),
        kind="push",
    ),
    "push-forgets-who-left": Plant(
        "what an agent that leaves has sent is dropped",
        (
            Edit(
                "features.push.listener",
                "        first = await receive()",
                "        await asyncio.sleep(0.05)\n        first = await receive()",
            ),
        ),
        kind="push",
    ),
    "push-two-at-a-time": Plant(
        "notifications of a webhook are sent concurrently",
        (
            Edit(
                "features.push.listener",
                "        async with self._turns.setdefault(webhook_id, asyncio.Lock()):",
                "        if True:",
            ),
        ),
        kind="push",
    ),
    "push-keeps-deleted": Plant(
        "a deleted configuration is notified further",
        (
            Edit(
                "store.webhooks",
                "DELETE FROM webhooks WHERE task_key = :task_key AND config_key",
                "DELETE FROM webhooks WHERE task_key = :task_key AND url",
            ),
        ),
        kind="push",
    ),
    "push-shows-the-address": Plant(
        "a client sees the proxy's address where the agent repeats it",
        (
            Edit(
                "features.push.registry", "return self.addresses.restored(body, urls) if urls else body", "return body"
            ),
        ),
        kind="push",
    ),
    "push-keeps-bytes": Plant(
        "memory grows with each notification",
        (
            Edit(
                "features.push.listener",
                "        first = await receive()",
                """
        self.planted = [*getattr(self, "planted", ()), b"x" * (1 << 20)]
        first = await receive()""",
            ),
        ),
        kind="push",
    ),
}
"""The faults by name."""


class PlantError(Exception):
    """A replacement does not fit the source."""


class Planter(MetaPathFinder, Loader):
    """Imports the modules of one plant with their replacements; all others are left to the rest of the system."""

    def __init__(self, plant: Plant) -> None:
        self._edits: dict[str, list[Edit]] = {}
        for edit in plant.edits:
            self._edits.setdefault(f"{PACKAGE}.{edit.module}", []).append(edit)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._edits:
            return None
        found = PathFinder.find_spec(fullname, path)
        if found is None or found.origin is None:
            raise PlantError(f"there is no module {fullname}")
        return importlib.util.spec_from_loader(fullname, self, origin=found.origin)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        assert spec.origin is not None
        source = planted(Path(spec.origin).read_text("utf-8"), self._edits[module.__name__])
        exec(compile(source, spec.origin, "exec"), module.__dict__)


def planted(source: str, edits: Sequence[Edit]) -> str:
    """The source of a module with the edits made. Raises PlantError where one does not fit."""
    for edit in edits:
        if source.count(edit.old) != 1:
            raise PlantError(f"{edit.module} has {source.count(edit.old)} places, not one, with: {edit.old!r}")
        source = source.replace(edit.old, edit.new)
    return source


def main() -> None:
    """`plants.py NAME serve ...`."""
    del sys.path[0]  # this folder: its modules are not to be found by the proxy
    sys.meta_path.insert(0, Planter(PLANTS[sys.argv.pop(1)]))
    from a2a_eval_proxy.cli import main as run

    run()


if __name__ == "__main__":
    main()
