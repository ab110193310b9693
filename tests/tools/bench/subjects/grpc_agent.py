"""An agent over gRPC that answers every message with the same task: prints `listening on HOST:PORT`, until killed.

A message whose text is a number is streamed an artifact of as many MiB, three times.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
from a2a.types import SendMessageRequest, SendMessageResponse, StreamResponse
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
    text = SendMessageRequest.FromString(request).message.parts[0].text
    if text.isdigit():
        artifact = {**ARTIFACT, "artifactId": "large", "parts": [{"text": "x" * (int(text) << 20)}]}
        update = {"taskId": f"t{text}", "contextId": "c", "artifact": artifact}
        large = ParseDict({"artifactUpdate": update}, StreamResponse()).SerializeToString()
        for _ in range(3):
            yield large
        return
    for _ in range(EVENTS - 1):
        yield EVENT
    yield ParseDict({"task": TASK}, StreamResponse()).SerializeToString()


async def main() -> None:
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
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
