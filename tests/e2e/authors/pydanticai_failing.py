"""A scripted model for Pydantic AI: looks an order up, then fails, so that no artifact follows the call."""

from __future__ import annotations

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydanticai import PAGE as PAGE
from pydanticai import REPLACED as REPLACED
from pydanticai import answer


def fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    response = answer(messages, info)
    if any(isinstance(part, TextPart) for part in response.parts):
        raise RuntimeError("the model is gone")
    return response


model = FunctionModel(fail)
