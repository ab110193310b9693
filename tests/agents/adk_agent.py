"""A google-adk agent on its own A2A server, played by a model of ours: it says what the first word asks for.

Runs in the environment `frameworks` as `python tests/agents/adk_agent.py`; by its path, since the
OpenAI Agents SDK, which is there too, calls its package `agents` as well.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator
from typing import Any

warnings.simplefilter("ignore")  # the A2A side of google-adk calls itself experimental at every turn

from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill  # noqa: E402
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor  # noqa: E402
from google.adk.a2a.utils.agent_to_a2a import to_a2a  # noqa: E402
from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.models.base_llm import BaseLlm  # noqa: E402
from google.adk.models.llm_request import LlmRequest  # noqa: E402
from google.adk.models.llm_response import LlmResponse  # noqa: E402
from google.adk.tools import FunctionTool, LongRunningFunctionTool  # noqa: E402
from google.genai import types  # noqa: E402
from serving import serve_forever  # noqa: E402
from starlette.applications import Starlette  # noqa: E402


def get_weather(city: str) -> str:
    """Returns the weather in a city."""
    return f"Sunny, 21C in {city}"


def find_flights(query: dict[str, Any], max_results: int) -> dict[str, Any]:
    """Finds flights."""
    return {"flights": [{"id": "AF 006", "price": 512.5}], "count": max_results}


def book_hotel(hotel_id: str) -> dict[str, Any]:
    """Books a hotel."""
    return {"error": f"hotel {hotel_id} not found"}


def ask_manager(amount: int) -> None:
    """Asks the manager, who answers some day."""


def refund(order: str) -> str:
    """Pays back an order, once the user has confirmed it."""
    return f"refunded {order}"


def _call(name: str, **arguments: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments))


_CODE = types.Part(executable_code=types.ExecutableCode(code="print(6 * 7)", language=types.Language.PYTHON))
_RAN = types.Part(code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="42\n"))
_TIMED_OUT = types.Part(
    code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_DEADLINE_EXCEEDED, output="too slow")
)

SAYS: dict[str, list[list[types.Part]]] = {
    "tools": [
        [_call("get_weather", city="Zürich"), _call("find_flights", query={"to": "NYC"}, max_results=3)],
        [_call("get_weather", city="Zürich")],
        [types.Part(text="It is sunny.")],
    ],
    "error": [[_call("book_hotel", hotel_id="H-404")], [types.Part(text="There is no such hotel.")]],
    "unknown": [[_call("no_such_tool", x=1)], [types.Part(text="I could not.")]],
    "wait": [[_call("ask_manager", amount=100)], [types.Part(text="I asked the manager.")]],
    "confirm": [[_call("refund", order="A-1")], [types.Part(text="Please confirm.")]],
    "code": [[types.Part(text="Let me see. "), _CODE, _RAN, _CODE, _TIMED_OUT, types.Part(text="It is 42.")]],
    "plain": [[types.Part(text="Hello.")]],
}
"""What the model says, request by request, by the first word of the user's message."""


class ScriptedModel(BaseLlm):
    """Answers from `SAYS`: its next line, by how often it has spoken since the user did."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        spoken = 0
        for content in reversed(llm_request.contents):
            text = content.parts[0].text if content.parts else None
            if content.role == "user" and text:
                break
            spoken += content.role == "model"
        lines = SAYS.get((text or "").split(" ")[0], SAYS["plain"])
        said = types.Content(role="model", parts=lines[min(spoken, len(lines) - 1)])
        yield LlmResponse(content=said.model_copy(deep=True))  # google-adk writes ids into it


def agent_card(url: str) -> AgentCard:
    return AgentCard(
        name="ADK agent",
        description="Says what the first word asks for",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=version) for version in ("1.0", "0.3")
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="say", name="Say", description="Says things", tags=["test"])],
    )


def build_app(url: str) -> Starlette:
    """The application google-adk makes."""
    agent = LlmAgent(
        name="adk_agent",
        model=ScriptedModel(model="scripted"),
        tools=[
            get_weather,
            find_flights,
            book_hotel,
            LongRunningFunctionTool(ask_manager),
            FunctionTool(refund, require_confirmation=True),
        ],
    )
    return to_a2a(
        agent,
        agent_card=agent_card(url),
        agent_executor_factory=lambda runner: A2aAgentExecutor(runner=runner, force_new_version=False),
    )


if __name__ == "__main__":
    serve_forever(build_app)
