"""A scripted model for Pydantic AI: looks an order up, then says where it is."""

from __future__ import annotations

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

PAGE = "pydantic-ai"
REPLACED = {'"openai:gpt-5.1"': "model", "uvicorn.run(app, port=9999)": ""}


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
        return ModelResponse(parts=[TextPart("It is shipped.")])
    return ModelResponse(parts=[ToolCallPart("look_up", {"order_id": "ORD-1001"}, tool_call_id="call_0")])


model = FunctionModel(answer)
