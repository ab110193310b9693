"""A scripted model for google-adk: looks an order up, then says where it is."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai.types import Content, FunctionCall, Part

PAGE = "google-adk"
REPLACED = {'"gemini-3-flash"': "model", "uvicorn.run(app, port=9999)": ""}


class ScriptedModel(BaseLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        part = Part(text="It is shipped.")
        if llm_request.contents[-1].parts[0].function_response is None:
            part = Part(function_call=FunctionCall(id="call_0", name="look_up", args={"order_id": "ORD-1001"}))
        yield LlmResponse(content=Content(role="model", parts=[part]))


model = ScriptedModel(model="scripted")
