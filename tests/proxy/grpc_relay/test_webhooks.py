"""Texts of A2A messages that repeat an address of the proxy, wherever they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from a2a.types import a2a_pb2
from a2a_eval_proxy.grpc_relay.messages import METHODS
from a2a_eval_proxy.grpc_relay.webhooks import replace_texts
from google.protobuf.json_format import MessageToDict, ParseDict
from proxy.push.conftest import relaying

TASK = {
    "id": "OLD",
    "artifacts": [
        {
            "artifactId": "a",
            "parts": [{"text": "see OLD."}, {"data": {"OLD": ["OLD", 1.5, None, {"deep": "OLD"}]}}],
            "metadata": {"key": {"list": ["OLD", True]}},
            "extensions": ["OLD", "other"],
        }
    ],
    "status": {"state": "TASK_STATE_WORKING", "message": {"messageId": "m", "parts": [{"raw": "T0xE"}]}},
}


def test_every_text_is_replaced_and_nothing_else() -> None:
    task = ParseDict(TASK, a2a_pb2.Task())
    replace_texts(task, lambda text: text.replace("OLD", "NEW"))
    shown = MessageToDict(task)
    (artifact,) = shown["artifacts"]
    assert shown["id"] == "NEW"
    assert artifact["parts"] == [{"text": "see NEW."}, {"data": {"OLD": ["NEW", 1.5, None, {"deep": "NEW"}]}}]
    assert artifact["metadata"] == {"key": {"list": ["NEW", True]}}
    assert artifact["extensions"] == ["NEW", "other"]
    assert shown["status"] == TASK["status"]


NOT_ALLOWED = {"url": "http://10.0.0.1/"}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("service", "field", "says"),
    [
        ("lf.a2a.v1", "taskPushNotificationConfig", "10.0.0.1"),
        ("a2a.v1", "pushNotification", "InvalidParamsError: "),
    ],
)
async def test_a_call_that_may_set_a_webhook_is_refused_where_it_is_not_allowed_or_cannot_be_read(
    service: str, field: str, says: str, agent: Any, tmp_path: Path
) -> None:
    """An agent may read more of it than the proxy; it answers what sets none itself."""
    send, get = (f"/{service}.A2AService/{method}" for method in ("SendMessage", "GetTask"))
    request = ParseDict({"configuration": {field: NOT_ALLOWED}}, METHODS[send].request_type()).SerializeToString()
    async with (
        relaying(agent.url, tmp_path / "turns.db", grpc="127.0.0.1:0") as relay,
        grpc.aio.insecure_channel(relay.proxy.grpc_address or "") as channel,
    ):
        for path, content, refused in ((send, request, True), (send, b"\xff", True), (get, b"\xff", False)):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await channel.unary_unary(path)(content)
            assert (error.value.code() is grpc.StatusCode.INVALID_ARGUMENT) is refused
            assert not refused or says in error.value.details() or content == b"\xff"
