"""A scripted model for Strands Agents: looks an order up, then says where it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from strands.models import Model

PAGE = "strands"
REPLACED = {
    "from strands.models.openai import OpenAIModel\n": "",
    '    model = OpenAIModel(model_id="gpt-5.1")\n': "",
    "server.serve()": "app = server.to_starlette_app()",
}


class ScriptedModel(Model):
    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    def structured_output(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *arguments: Any, **options: Any) -> AsyncIterator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        if any("toolResult" in block for block in messages[-1]["content"]):
            yield {"contentBlockDelta": {"delta": {"text": "It is shipped."}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        yield {"contentBlockStart": {"start": {"toolUse": {"name": "look_up", "toolUseId": "call_0"}}}}
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"order_id": "ORD-1001"}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


model = ScriptedModel()
