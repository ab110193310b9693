"""A stand-in for an OpenAI-compatible chat-completions API: scripted messages, no model. It runs over real HTTP.

It refuses what OpenAI's refuses: a wrong key, and messages in which a tool call has no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from agents.serving import ServerThread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

KEY = "sk-stand-in-0123456789"


def calls(*given: tuple[str, str], content: str | None = None, first_id: str = "call_0") -> dict[str, Any]:
    """A message that calls tools, each a name and arguments as JSON text."""
    prefix, _, number = first_id.rpartition("_")
    return {
        "content": content,
        "tool_calls": [
            {
                "id": f"{prefix}_{int(number) + i}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for i, (name, arguments) in enumerate(given)
        ],
    }


@dataclass
class ChatServer:
    """Answers each request with the next of `script`: a message, a text, or a whole response."""

    script: list[dict[str, Any] | str | Response]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    stop: Callable[[], None] = lambda: None

    async def answer(self, request: Request) -> Response:
        body = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        self.paths.append(f"{request.url.path}?{request.url.query}".rstrip("?"))
        if request.headers.get("authorization") not in (None, f"Bearer {KEY}"):
            return _error(401, f"Incorrect API key provided: {request.headers['authorization'].split()[-1]}.")
        if missing := _without_result(body["messages"]):
            return _error(400, f"tool_call_ids did not have response messages: {missing}")
        said = self.script.pop(0)
        if isinstance(said, Response):
            return said
        message = {"role": "assistant", **({"content": said} if isinstance(said, str) else said)}
        return JSONResponse({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "model": "m"})


@contextmanager
def chat_server(*script: dict[str, Any] | str | Response) -> Iterator[ChatServer]:
    """A running stand-in; its `url` ends with `/v1`."""
    server = ChatServer(list(script))
    routes = [Route("/v1/chat/completions", server.answer, methods=["POST"])]
    with ExitStack() as stack:
        thread = stack.enter_context(ServerThread(lambda url: Starlette(routes=routes)))
        server.url, server.stop = f"{thread.url}/v1", stack.close
        yield server


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error", "code": None}}, status)


def _without_result(messages: list[dict[str, Any]]) -> list[str]:
    asked = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    given = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    return asked[len(given) :] if asked[: len(given)] == given else asked
