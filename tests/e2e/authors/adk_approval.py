"""An agent of google-adk with the extension that refunds an order once the user has confirmed it: `adk_approval.py
asks`; with `executes`, its tool refunds first and asks then. Prints `listening on URL` and serves until it is ended."""

from __future__ import annotations

import socket
import sys
import warnings
from collections.abc import AsyncGenerator

import uvicorn

warnings.simplefilter("ignore")  # the A2A side of google-adk calls itself experimental

from a2a_tool_capture import ToolCallRecorder  # noqa: E402
from a2a_tool_capture.bridges.google_adk import to_a2a  # noqa: E402
from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.models import BaseLlm, LlmRequest, LlmResponse  # noqa: E402
from google.adk.tools import FunctionTool, ToolContext  # noqa: E402
from google.genai.types import Content, FunctionCall, Part  # noqa: E402


class ScriptedModel(BaseLlm):
    """Refunds the order, and says what the tool has returned."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        returned = llm_request.contents[-1].parts[0].function_response
        part = Part(function_call=FunctionCall(name="refund", args={"order": "A-1"}))
        if returned is not None:
            part = Part(text=str(returned.response))
        yield LlmResponse(content=Content(role="model", parts=[part]))


def refund(order: str) -> str:
    """Refunds an order."""
    return f"refunded {order}"


def hasty_refund(order: str, tool_context: ToolContext) -> str:
    """Refunds an order, and asks whether that is right."""
    if not tool_context.tool_confirmation:
        tool_context.request_confirmation(hint="Was that right?")
    return f"refunded {order}"


hasty_refund.__name__ = "refund"

if __name__ == "__main__":
    tool = FunctionTool(refund, require_confirmation=True) if sys.argv[1] == "asks" else FunctionTool(hasty_refund)
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    agent = LlmAgent(name="refunds", model=ScriptedModel(model="scripted"), tools=[tool])
    app = to_a2a(agent, host="127.0.0.1", port=port, recorder=ToolCallRecorder())
    print(f"listening on http://127.0.0.1:{port}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_config=None)).run(sockets=[listener])
