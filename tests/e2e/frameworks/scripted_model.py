"""A model behind the APIs of OpenAI (chat completions and responses) and of Gemini: it looks an order up, then answers.

Frameworks reach it as they reach their provider, by `OPENAI_BASE_URL` and `GOOGLE_GEMINI_BASE_URL`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

QUESTION = "Where is order {order}, and how many days does it take to {city}?"
ANSWER = "It is on its way."
_ASKED = re.compile(r"Where is order (ORD-\d+), and how many days does it take to (\w+)\?")
_KEPT = re.compile(r"resp_(ORD-\d+)_(\w+)_(\d+)")
_FINAL_TOOL = "final_answer"
"""The tool with which smolagents' models answer."""


@dataclass(frozen=True)
class Call:
    """A tool call as a model asks for it."""

    id: str
    name: str
    arguments: dict[str, Any]


def script(order: str, city: str) -> list[list[Call]]:
    """The calls of each answer of the model: both at once, or for orders of even numbers one after the other."""
    calls = [
        Call(f"{order}-1", "look_up", {"order_id": order}),
        Call(f"{order}-2", "delivery_days", {"city": city}),
    ]
    return [[call] for call in calls] if int(order[-1]) % 2 == 0 else [calls]


@dataclass
class _Conversation:
    """What a request contains: the last question, and how many answers with calls followed."""

    order: str = ""
    city: str = ""
    answered: int = 0
    tools: set[str] = field(default_factory=set)
    steps: list[list[Call]] = field(default_factory=list)

    def said(self, role: str, text: str, *, calls: bool = False) -> None:
        if role == "user" and (asked := _ASKED.findall(text)):
            self.order, self.city = asked[-1]
            self.steps, self.answered = script(self.order, self.city), 0
        elif role != "user" and calls:
            self.answered += 1

    def next(self) -> tuple[list[Call], str]:
        if self.answered < len(self.steps):
            return [call for call in self.steps[self.answered] if call.name in self.tools], ""
        if _FINAL_TOOL in self.tools:
            return [Call(f"{self.order}-3", _FINAL_TOOL, {"answer": ANSWER})], ""
        return [], ANSWER


def application() -> Starlette:
    return Starlette(
        routes=[
            Route("/v1/chat/completions", _chat_completions, methods=["POST"]),
            Route("/v1/responses", _responses, methods=["POST"]),
            Route("/v1beta/models/{model}", _generate_content, methods=["POST"]),
        ]
    )


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _stream(events: Iterable[dict[str, Any] | str], named: bool = False) -> Response:
    def lines() -> Iterator[str]:
        for event in events:
            head = f"event: {event['type']}\n" if named and isinstance(event, dict) else ""
            yield f"{head}data: {event if isinstance(event, str) else json.dumps(event)}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


async def _chat_completions(request: Request) -> Response:
    body = await request.json()
    conversation = _Conversation(tools={tool["function"]["name"] for tool in body.get("tools") or ()})
    for message in body["messages"]:
        text = _text(message.get("content"))
        asks = bool(message.get("tool_calls")) or text.startswith("Calling tools:")
        conversation.said(message["role"], text, calls=asks)
    calls, text = conversation.next()
    if body.get("response_format"):  # what LangGraph's agents ask for last
        text = json.dumps({"status": "completed", "message": text})
    asked = [
        {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for index, call in enumerate(calls)
    ]
    head = {"id": "chat-1", "created": 1, "model": body["model"]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    message = {"role": "assistant", "content": text or None, **({"tool_calls": asked} if asked else {})}
    reason = "tool_calls" if asked else "stop"
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return JSONResponse({**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**head, "object": "chat.completion.chunk", "choices": [choice]}

    last = {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}
    told = [{"tool_calls": [one]} for one in asked] or [{"content": text}]
    return _stream([*map(chunk, [{"role": "assistant"}, *told]), chunk({}, reason), last, "[DONE]"])


async def _responses(request: Request) -> Response:
    body = await request.json()
    conversation = _Conversation(tools={tool.get("name", "") for tool in body.get("tools") or ()})
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if kept := _KEPT.fullmatch(body.get("previous_response_id") or ""):  # the client sends only what is new
        conversation.order, conversation.city, conversation.answered = kept[1], kept[2], int(kept[3])
        conversation.steps = script(kept[1], kept[2])
    previous = ""
    for item in items:
        kind = item.get("type") or "message"
        if kind == "message":
            conversation.said(item.get("role", ""), _text(item.get("content")))
        elif kind == "function_call" and previous != kind:
            conversation.said("assistant", "", calls=True)
        previous = kind
    calls, text = conversation.next()
    output: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": f"fc_{call.id}",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        for call in calls
    ]
    if not output:
        said = {"type": "output_text", "text": text, "annotations": []}
        output = [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]}]
    response = {
        "id": f"resp_{conversation.order}_{conversation.city}_{conversation.answered + bool(calls)}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        },
    }
    if not body.get("stream"):
        return JSONResponse(response)
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**response, "output": []}}]
    for index, item in enumerate(output):
        begun = {**item, "status": "in_progress", **({"arguments": ""} if "arguments" in item else {"content": []})}
        events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        events += _parts_of(item, index)
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": response})
    return _stream(({**event, "sequence_number": number} for number, event in enumerate(events)), named=True)


def _parts_of(item: dict[str, Any], index: int) -> list[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": index}
    if item["type"] == "function_call":
        arguments = item["arguments"]
        return [
            {"type": "response.function_call_arguments.delta", **place, "delta": arguments},
            {"type": "response.function_call_arguments.done", **place, "arguments": arguments, "name": item["name"]},
        ]
    place |= {"content_index": 0}
    part = item["content"][0]
    return [
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": part["text"], "logprobs": []},
        {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
    ]


async def _generate_content(request: Request) -> Response:
    body = await request.json()
    declared = [one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
    conversation = _Conversation(tools={one["name"] for one in declared})
    for content in body["contents"]:
        parts = content.get("parts") or ()
        text = "".join(part.get("text") or "" for part in parts)
        conversation.said(content.get("role", "user"), text, calls=any("functionCall" in part for part in parts))
    calls, text = conversation.next()
    parts = [{"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}} for call in calls]
    answer = {
        "candidates": [{"content": {"role": "model", "parts": parts or [{"text": text}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    }
    if ":streamGenerateContent" in request.path_params["model"]:
        return _stream([answer])
    return JSONResponse(answer)
