"""Texts of A2A messages that repeat an address of the proxy, wherever they stand."""

from __future__ import annotations

from a2a.types import a2a_pb2
from a2a_eval_proxy.grpc_relay.webhooks import replace_texts
from google.protobuf.json_format import MessageToDict, ParseDict

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
