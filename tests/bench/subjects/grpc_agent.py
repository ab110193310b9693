"""An agent over gRPC that answers every message with the same task: prints `listening on HOST:PORT`, until killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
from a2a.types import SendMessageResponse, StreamResponse
from a2a_tool_capture import METADATA_KEY, URI
from google.protobuf.json_format import ParseDict

ARTIFACT = {
    "artifactId": "a",
    "parts": [{"text": "0123456789abcdef" * 16}],
    "metadata": {METADATA_KEY: [{"id": "1", "name": "search", "arguments": {"q": "x"}, "result": "42"}]},
    "extensions": [URI],
}
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [ARTIFACT]}
ANSWER = ParseDict({"task": TASK}, SendMessageResponse()).SerializeToString()
EVENT = ParseDict(
    {
        "artifactUpdate": {
            "taskId": "t",
            "contextId": "c",
            "append": True,
            "artifact": {"artifactId": "b", "parts": [{"text": "x" * 64}]},
        }
    },
    StreamResponse(),
).SerializeToString()
EVENTS = 100


async def answer(request: bytes, context: Any) -> bytes:
    return ANSWER


async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
    for _ in range(EVENTS - 1):
        yield EVENT
    yield ParseDict({"task": TASK}, StreamResponse()).SerializeToString()


async def main() -> None:
    server = grpc.aio.server()
    methods = {
        "SendMessage": grpc.unary_unary_rpc_method_handler(answer),
        "SendStreamingMessage": grpc.unary_stream_rpc_method_handler(stream),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lf.a2a.v1.A2AService", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"listening on 127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
