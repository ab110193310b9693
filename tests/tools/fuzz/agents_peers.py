"""The peers of a round with several agents: agents over HTTP and gRPC, the endpoints of webhooks, and a judge.

Each says whom what it gets is of: agents inspect what reaches them, and mark what they send.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import grpc
import httpx
from a2a.types.a2a_pb2 import SendMessageResponse, Task
from a2a.types.a2a_pb2_grpc import A2AServiceServicer
from a2a_tool_capture import METADATA_KEY, URI
from google.protobuf.json_format import MessageToDict, ParseDict

from .ledger import Fault, Ledger
from .raw_server import RawServer, response

_MARK = re.compile(r"\bof-(a\d+)\b")
_DONE = {"state": "TASK_STATE_COMPLETED"}
_NUMBERS = itertools.count(1)


def marks(text: str) -> set[str]:
    """The names of the agents whose data is in the text."""
    return {*_MARK.findall(text)}


def task(name: str, task_id: str, *, with_calls: bool) -> dict[str, Any]:
    """A completed task of the agent, whose answers of a task can be told apart by their ids and times."""
    number = next(_NUMBERS)
    artifact: dict[str, Any] = {"artifactId": f"a{number}", "parts": [{"text": f"answer of-{name}"}]}
    if with_calls:
        call = {"id": str(number), "name": "look", "arguments": {"what": f"of-{name}"}, "result": "found"}
        artifact |= {"extensions": [URI], "metadata": {METADATA_KEY: [call]}}
    status = {**_DONE, "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z")}
    return {"id": task_id, "contextId": "c", "status": status, "artifacts": [artifact]}


class NamedAgent(RawServer):
    """Answers as an agent of A2A 1.0 over JSON-RPC and gRPC, always with tool calls where it is asked for them.

    It exports a span where a message says `traced`, and asks another agent where it says `asking NAME`.
    """

    def __init__(self, name: str, ledger: Ledger) -> None:
        super().__init__()
        self.name = name
        self.grpc_address = ""
        self.hooks: dict[str, str] = {}
        """Where it notifies of tasks."""
        self._ledger = ledger

    def meets(self, http: httpx.AsyncClient, proxy_url: str, traces_url: str) -> None:
        """Where it exports spans, and asks other agents."""
        self._http, self._proxy_url, self._traces_url = http, proxy_url, traces_url

    async def answer(self, head: str, body: bytes) -> bytes:
        return await self._answer(head, body.decode())

    async def _answer(self, head: str, body: str) -> bytes:
        self._inspect(head, body)
        if head.startswith("GET"):
            interfaces = [
                {"url": f"{self.url}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
                {"url": self.grpc_address, "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            ]
            capabilities = {"streaming": True, "pushNotifications": True, "extensions": [{"uri": URI}]}
            card = {"name": f"of-{self.name}", "version": "1", "supportedInterfaces": interfaces}
            return response(json.dumps({**card, "capabilities": capabilities}).encode())
        request = json.loads(body)
        method, params = request["method"], request["params"]
        if "traced" in body:
            await self._export(head)
        if found := re.search(r"asking (a\d+) (\d+)", body):
            await self._ask(*found.groups(), head)
        if method == "SendStreamingMessage":
            done = self.reply("SendMessage", head, params)["task"]
            about = {"taskId": done["id"], "contextId": "c"}
            update = {**about, "artifact": done["artifacts"][0]}
            events = [{"artifactUpdate": update}, {"statusUpdate": {**about, "status": done["status"]}}]
            data = "".join(f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': one})}\n\n" for one in events)
            return response(data.encode(), media_type="text/event-stream")
        result = self.reply(method, head, params)
        return response(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())

    def _inspect(self, head: str, body: str) -> None:
        if foreign := marks(head + body) - {self.name}:
            self._ledger.report(Fault.CROSSED, f"{self.name} got what is {foreign}: {head}{body}")
        if f"key of-{self.name}" not in head:
            self._ledger.report(Fault.CROSSED, f"{self.name} got not its own credential: {head}")

    def reply(self, method: str, head: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a method."""
        if method == "CreateTaskPushNotificationConfig":
            self.hooks[params["taskId"]] = params["url"]
            return params
        if method == "DeleteTaskPushNotificationConfig":
            return {}
        message = params.get("message", {})
        task_id = params.get("id") or message["messageId"].partition(" ")[0]
        found = task(self.name, task_id, with_calls=URI in head)
        if "slowly" in json.dumps(message):
            found |= {"status": {"state": "TASK_STATE_WORKING"}, "metadata": {"by": f"of-{self.name}"}}
            del found["artifacts"]
        return found if method == "GetTask" else {"task": found}

    async def _export(self, head: str) -> None:
        """A span of a tool call, in the trace of the request."""
        context = dict(re.findall(r"(?i)\r\n(traceparent|tracestate): *(\S+)", head))
        _, trace_id, parent, _ = context["traceparent"].split("-")
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "traced",
            "gen_ai.tool.call.id": "2",
            "gen_ai.tool.call.arguments": json.dumps({"what": f"of-{self.name}"}),
        }
        span = {"traceId": trace_id, "spanId": secrets.token_hex(8), "parentSpanId": parent, "name": "traced"}
        span["traceState"] = context["tracestate"]
        span |= {"startTimeUnixNano": str(time.time_ns()), "endTimeUnixNano": str(time.time_ns())}
        span["attributes"] = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
        request = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        (await self._http.post(f"{self._traces_url}/v1/traces", json=request)).raise_for_status()

    async def _ask(self, other: str, number: str, head: str) -> None:
        context = dict(re.findall(r"(?i)\r\n(traceparent|tracestate): *([^\r]+)", head))
        parts = [{"text": f"for of-{other} asked {number}"}]
        params = {"message": {"messageId": "t0 asked", "role": "ROLE_USER", "parts": parts}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        headers = {"a2a-version": "1.0", **context}
        answer = await self._http.post(f"{self._proxy_url}/agents/{other}/", json=body, headers=headers)
        if marks(answer.text) != {other}:
            self._ledger.report(Fault.CROSSED, f"{self.name} asked {other}: {answer.text}")

    def servicer(self) -> A2AServiceServicer:
        """What answers calls over gRPC."""
        agent = self

        class Servicer(A2AServiceServicer):  # type: ignore[misc]
            async def SendMessage(self, request: Any, context: grpc.aio.ServicerContext) -> Any:  # noqa: N802
                return ParseDict(agent._called("SendMessage", request, context), SendMessageResponse())

            async def GetTask(self, request: Any, context: grpc.aio.ServicerContext) -> Any:  # noqa: N802
                return ParseDict(agent._called("GetTask", request, context), Task())

        return Servicer()

    def _called(self, method: str, request: Any, context: grpc.aio.ServicerContext) -> dict[str, Any]:
        head, params = str(context.invocation_metadata()), MessageToDict(request)
        self._inspect(head, json.dumps(params))
        return self.reply(method, head, params)


class Endpoints(RawServer):
    """The endpoints of webhooks, at `/hook/of-NAME/TASK`."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.arrived: Counter[str] = Counter()
        """Notifications by path."""
        self._ledger = ledger

    async def answer(self, head: str, body: bytes) -> bytes:
        path, text = head.split()[1], body.decode()
        self.arrived[path] += 1
        if marks(text) != marks(path) or METADATA_KEY in text:
            self._ledger.report(Fault.CROSSED, f"the webhook {path} got {text}")
        return response(b"{}")


class Judge(RawServer):
    """A judge with an OpenAI-compatible API, which says of whom it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        """Requests by the agents whose data they have."""

    async def answer(self, head: str, body: bytes) -> bytes:
        schema = json.loads(body)["response_format"]["json_schema"]["schema"]
        said = " ".join(f"of-{name}" for name in sorted(marks(body.decode())))
        self.asked[said] += 1
        values = {"string": said, "integer": 5, "number": 5, "boolean": True}
        verdict = {name: values[one.get("type", "integer")] for name, one in schema["properties"].items()}
        message = {"role": "assistant", "content": json.dumps(verdict)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        completion = {"id": "1", "object": "chat.completion", "created": 1, "model": "judge", "choices": [choice]}
        return response(json.dumps(completion).encode())
