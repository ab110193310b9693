"""Agents of A2A 1.1 over gRPC, unknown to a2a-sdk: bytes pass as they are, and capture reads what is new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from a2a_eval_proxy.grpc_relay.messages import METHODS
from a2a_tool_capture import URI
from google.protobuf.json_format import ParseDict
from proxy.relay.test_a2a_1_1 import (
    JUMPED,
    JUMPING,
    MESSAGE,
    NAMES,
    SEEN,
    SEEN_DESPITE,
    SUBMITTED,
    WHOLE,
    called,
    known,
    status,
)
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S

SERVICE = "/lf.a2a.v1.A2AService/"
TIMELINE = [
    {"message": MESSAGE, "generation": "2"},
    {"status": {"state": "TASK_STATE_WORKING", "message": {**MESSAGE, "role": "ROLE_AGENT"}}, "generation": "3"},
]
ANSWERED = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "timeline": TIMELINE}}


class _GrpcAgent(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """Answers with these messages, and a field that no reader knows."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []

    def service(self, details: Any) -> Any:
        async def stream(_: bytes, context: Any) -> Any:
            if not self.answers:
                await context.abort(grpc.StatusCode.ABORTED, "task generation mismatch")
            for answer in self.answers:
                yield answer

        return grpc.unary_stream_rpc_method_handler(stream)


async def test_grpc_messages_pass_byte_for_byte_and_are_read_alike(tmp_path: Path) -> None:
    agent, server = _GrpcAgent(), grpc.aio.server()
    server.add_generic_rpc_handlers((agent,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with running_proxy(f"grpc://127.0.0.1:{port}", tmp_path) as proxy:
            for method, events in (
                ("SendStreamingMessage", JUMPING),
                ("SendStreamingMessage", WHOLE),
                ("SendStreamingMessage", [SUBMITTED, {}, status("WORKING", 3), called(4), status("COMPLETED", 5)]),
                ("SendMessage", [ANSWERED]),
            ):
                kinds = METHODS[SERVICE + method]
                request = ParseDict({"message": MESSAGE}, kinds.request_type()).SerializeToString()
                unknown = b"\xf2\x3f\x05later"
                agent.answers = [ParseDict(e, kinds.response_type()).SerializeToString() + unknown for e in events]
                async with grpc.aio.insecure_channel(proxy.grpc_address) as channel:
                    call = channel.unary_stream(SERVICE + method)(request, metadata=(("a2a-extensions", URI),))
                    assert [message async for message in call] == agent.answers
            agent.answers = []
            content = {"message": {**MESSAGE, **NAMES}, "configuration": {"ifGenerationMatch": "1"}}
            request = ParseDict(content, METHODS[SERVICE + "SendMessage"].request_type()).SerializeToString()
            async with grpc.aio.insecure_channel(proxy.grpc_address) as channel:
                with pytest.raises(grpc.aio.AioRpcError, match="task generation mismatch"):
                    await channel.unary_unary(SERVICE + "SendMessage")(request)
            await proxy.flush(PATIENCE_S)
            turns = await proxy.turns()
        assert [known(turn) for turn in turns[:3]] == [JUMPED, SEEN, SEEN_DESPITE]
        assert [turn["response_text"] for turn in turns[3:]] == ["hi"]  # what was refused is no turn
    finally:
        await server.stop(0)
