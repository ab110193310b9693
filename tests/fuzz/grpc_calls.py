"""Random calls over gRPC, many at a time, to an agent that does what each call says; what differs is a fault.

A call carries its plan, so what its client must see is known: nothing of another call, nothing more and nothing less.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from a2a.types import Message, Part, Role, SendMessageRequest, StreamResponse
from a2a_tool_capture import URI
from google.protobuf.json_format import ParseDict

PATHS = ("/lf.a2a.v1.A2AService/SendMessage", "/a2a.v1.A2AService/SendStreamingMessage", "/fuzz.Service/Any", "/x/y")
"""The plans are no messages of A2A, so its methods relay them unread."""

A2A_PATH = "/lf.a2a.v1.A2AService/SendStreamingMessage"
"""Here the plan is the text of a message, and each response an event with a tool call."""

ASKING = ("a2a-extensions", URI)

CODES = (grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAUTHENTICATED)
HANG_S = 60.0
AT_ONCE = 25
SETTLE_S = 60.0

Metadata = tuple[tuple[str, str | bytes], ...]


@dataclass(frozen=True)
class Plan:
    """One call. `sizes` are those of the response messages; after number `leaves_after` the client cancels.

    `asks`: whether the client asks for tool calls; None: the messages are not those of A2A.
    """

    token: str
    path: str
    requests: int
    padding: int
    initial: int
    sizes: tuple[int, ...]
    trailing: int
    code: grpc.StatusCode
    leaves_after: int | None
    asks: bool | None

    @classmethod
    def drawn(cls, chance: random.Random, token: str) -> Plan:
        sizes = tuple(chance.choice((0, 1, 100, 70_000, 300_000)) for _ in range(chance.choice((0, 1, 1, 2, 6))))
        path = chance.choice((*PATHS, A2A_PATH, A2A_PATH))
        return cls(
            token,
            path,
            requests=1 if "a2a" in path else chance.choice((1, 1, 1, 2, 4)),
            padding=chance.choice((0, 10, 200_000)),
            initial=chance.choice((0, 0, 1, 3)),
            sizes=sizes,
            trailing=chance.choice((0, 1, 3)),
            code=chance.choice(CODES),
            leaves_after=chance.randrange(len(sizes)) if sizes and chance.random() < 0.2 else None,
            asks=chance.random() < 0.5 if path == A2A_PATH else None,
        )

    def request(self) -> bytes:
        response = {"initial": self.initial, "sizes": self.sizes, "trailing": self.trailing, "code": self.code.name}
        response["waits"] = self.leaves_after is not None
        text = json.dumps({"token": self.token, "requests": self.requests, **response}) + " " * self.padding
        if self.asks is None:
            return text.encode()
        message = Message(message_id=self.token, role=Role.ROLE_USER, parts=[Part(text=text)])
        request: bytes = SendMessageRequest(message=message).SerializeToString()
        return request

    def response(self, number: int) -> bytes:
        """What the client gets."""
        if self.asks is None:
            return message(self.token, number, self.sizes[number])
        return event(self.token, number, self.sizes[number], calls=self.asks)


def metadata(token: str, number: int) -> Metadata:
    """Repeated keys, text and binary."""
    return tuple((f"x-{n % 2}", f"{token}-{n}") for n in range(number)) + tuple(
        ("x-raw-bin", f"{token}\0{n}".encode()) for n in range(number)
    )


def message(token: str, number: int, size: int) -> bytes:
    return f"{token} {number} ".encode() + b"m" * size


def event(token: str, number: int, size: int, *, calls: bool) -> bytes:
    """An event of a task, with a tool call or without."""
    text = message(token, number, size).decode()
    artifact: dict[str, Any] = {"artifactId": f"{token}-{number}", "parts": [{"text": text}]}
    if calls:
        call = {"id": f"{number}", "name": "look_up", "arguments": {"of": token}, "result": "found"}
        artifact |= {"extensions": [URI], "metadata": {URI: {"toolCalls": [call]}}}
    update = {"taskId": token, "contextId": token, "artifact": artifact}
    data: bytes = ParseDict({"artifactUpdate": update}, StreamResponse()).SerializeToString(deterministic=True)
    return data


def plan_in(request: bytes, path: str) -> dict[str, Any]:
    """What the client's first message says."""
    text = SendMessageRequest.FromString(request).message.parts[0].text if path == A2A_PATH else request.decode()
    plan: dict[str, Any] = json.loads(text)
    return plan


class FuzzAgent(grpc.GenericRpcHandler):
    """Does what the first message says, once it has all messages of the call. `open_calls`: not ended yet."""

    def __init__(self) -> None:
        self.open_calls = 0

    def service(self, call: Any) -> Any:
        async def answer(_: Any, context: Any) -> None:
            self.open_calls += 1
            try:
                await self._answer(call.method, context)
            finally:
                self.open_calls -= 1

        return grpc.stream_stream_rpc_method_handler(answer)

    async def _answer(self, path: str, context: Any) -> None:
        plan = plan_in(await context.read(), path)
        token = plan["token"]
        others = [await context.read() for _ in range(plan["requests"] - 1)]
        if any(other != message(token, n, 10) for n, other in enumerate(others, 1)):
            await context.abort(grpc.StatusCode.DATA_LOSS, "requests of another call")
        if plan["initial"]:
            await context.send_initial_metadata(metadata(token, plan["initial"]))
        for number, size in enumerate(plan["sizes"]):
            is_event, asked = path == A2A_PATH, ASKING in context.invocation_metadata()
            await context.write(event(token, number, size, calls=asked) if is_event else message(token, number, size))
        if plan["waits"]:
            await asyncio.Event().wait()  # until the client's leaving cancels the call
        trailing = metadata(token, plan["trailing"])
        if plan["code"] != "OK":
            await context.abort(grpc.StatusCode[plan["code"]], f"said {token}", trailing)
        context.set_trailing_metadata(trailing)


async def fault_of(channel: grpc.aio.Channel, plan: Plan) -> str | None:
    """How what the client saw differs from the plan; None if it does not."""
    try:
        async with asyncio.timeout(HANG_S):
            return await _performed(channel, plan)
    except TimeoutError:
        return f"{plan}: hangs"


async def _performed(channel: grpc.aio.Channel, plan: Plan) -> str | None:
    first = plan.request()
    if plan.requests == 1:
        call = channel.unary_stream(plan.path)(first, metadata=(ASKING,) if plan.asks else None)
    else:
        call = channel.stream_stream(plan.path)()
        for part in (first, *(message(plan.token, n, 10) for n in range(1, plan.requests))):
            await call.write(part)
        await call.done_writing()
    seen = []
    try:
        while (part := await call.read()) is not grpc.aio.EOF:
            seen.append(part)
            if plan.leaves_after is not None and len(seen) > plan.leaves_after:
                call.cancel()
                break
    except grpc.aio.AioRpcError:
        pass
    expected = [plan.response(number) for number in range(len(plan.sizes))]
    if plan.leaves_after is not None:
        return None if seen == expected[: len(seen)] else f"{plan}: other messages"
    differences = list(_differences(plan, expected, seen, await _end(call)))
    return f"{plan}: {differences}" if differences else None


async def _end(call: Any) -> dict[str, Any]:
    return {
        "initial": set(await call.initial_metadata()),
        "trailing": set(await call.trailing_metadata()),
        "code": await call.code(),
        "details": (await call.details()) or "",
    }


def _differences(plan: Plan, expected: list[bytes], seen: list[bytes], end: dict[str, Any]) -> Iterator[str]:
    if seen != expected:
        yield f"{len(seen)} messages of {len(expected)}, or others"
    wanted = {
        "initial": set(metadata(plan.token, plan.initial)),
        "trailing": set(metadata(plan.token, plan.trailing)),
        "code": plan.code,
        "details": "" if plan.code is grpc.StatusCode.OK else f"said {plan.token}",
    }
    if not plan.sizes and not end["initial"]:
        del wanted["initial"]  # grpcio forgets it where the status arrives first, as it may in a call without messages
    yield from (f"{name}: {end[name]!r} instead of {wanted[name]!r}" for name in wanted if end[name] != wanted[name])


async def faults(seed: int, calls: int, address: str, agent: FuzzAgent) -> list[str]:
    """The faults of a number of calls to HOST:PORT, `AT_ONCE` at a time over three connections."""
    chance, room = random.Random(seed), asyncio.Semaphore(AT_ONCE)
    channels = [grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) for _ in range(3)]

    async def one(number: int, plan: Plan) -> str | None:
        async with room:
            return await fault_of(channels[number % len(channels)], plan)

    plans = [Plan.drawn(chance, f"c{seed}-{number}") for number in range(calls)]
    found = [fault for fault in await asyncio.gather(*map(one, range(calls), plans)) if fault is not None]
    for channel in channels:
        await channel.close()
    try:
        async with asyncio.timeout(SETTLE_S):
            while agent.open_calls:
                await asyncio.sleep(0.01)
    except TimeoutError:
        found.append(f"{agent.open_calls} calls are still open at the agent")
    return found
