"""A fake of the OpenAI chat-completions API: no model behind it, prepared replies, and as strict as the real one.

It refuses what the real API refuses, in the real API's words and shapes, so that a client that passes here has sent
a request that would have been accepted there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from agents.serving import ServerThread
from starlette.requests import Request
from starlette.responses import Response
from tool_call_evaluators.judge import ChatJudge, JudgeSettings

KEY = "sk-fake-0123456789abcdef"
MODEL = "fake-judge-1"

_PARAMETERS = {
    "model", "messages", "response_format", "temperature", "seed", "max_tokens", "max_completion_tokens", "top_p",
    "reasoning_effort", "user", "stop", "n", "stream",
}  # fmt: skip
_ROLES = ("system", "developer", "user", "assistant")
_KEYWORDS = {"type", "properties", "required", "additionalProperties", "enum", "items", "description"}
"""Of JSON Schema, what strict structured output has always understood."""


@dataclass
class Reply:
    """What the server does with a request: a whole response, a body cut short, or nothing at all."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False


Chooser = Callable[[dict[str, Any]], Reply | Awaitable[Reply]]


def says(value: Any, *, usage: Mapping[str, Any] | None = None, **choice: Any) -> Reply:
    """A completion. `value` is the content: a text, or JSON data; `choice` holds members of the choice."""
    message = {"role": "assistant", "content": value if isinstance(value, str) else json.dumps(value), "refusal": None}
    body = {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "model": f"{MODEL}-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120} if usage is None else usage,
    }
    return Reply(body=json.dumps(body).encode())


def refuses(message: str) -> Reply:
    """The model itself declines (structured output has a field for that)."""
    return says("", message={"role": "assistant", "content": None, "refusal": message})


def fails(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    """An error in the API's shape. Header names are given with underscores."""
    error = {"message": message, "type": "error", "param": None, "code": code}
    return Reply(status, json.dumps({"error": error}).encode(), {k.replace("_", "-"): v for k, v in headers.items()})


def fitting(schema: Mapping[str, Any]) -> Any:
    """Some value that fits a schema as we write them: the first of an enum, true, a text."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: fitting(inner) for name, inner in schema["properties"].items()}
    return {"string": "because it is so", "boolean": True, "number": 1.0, "integer": 1}[schema["type"]]


def fit(request: dict[str, Any]) -> Reply:
    """Answers whatever is asked with a value that fits."""
    return says(fitting(request["response_format"]["json_schema"]["schema"]))


class FakeApi:
    """ASGI application. Gives the replies in turn, the last one ever after; `requests` are those it accepted."""

    def __init__(self, *replies: Reply | Chooser) -> None:
        self._replies = list(replies) or [fit]
        self.requests: list[dict[str, Any]] = []
        self.attempts = 0

    def app(self, url: str) -> FakeApi:
        """For ServerThread."""
        return self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"unexpected ASGI scope {scope['type']!r}")
        body = await Request(scope, receive).body()
        self.attempts += 1
        reply = self._complaint(scope, body)
        if reply is None:
            request = json.loads(body)
            self.requests.append(request)
            reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
            if callable(reply):
                reply = reply(request)
                if not isinstance(reply, Reply):
                    reply = await reply
        if reply.hang:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        length = len(reply.body) + (100 if reply.cut else 0)
        headers = {"content-type": "application/json", "content-length": str(length), **reply.headers}
        await Response(reply.body, reply.status, headers)(scope, receive, send)

    def _complaint(self, scope: Any, body: bytes) -> Reply | None:
        headers = dict(scope["headers"])
        if (scope["method"], scope["path"]) != ("POST", "/v1/chat/completions"):
            return fails(404, f"Invalid URL ({scope['method']} {scope['path']})")
        given = headers.get(b"authorization", b"").decode()
        if given != f"Bearer {KEY}":
            shown = given.removeprefix("Bearer ")
            return fails(401, f"Incorrect API key provided: {shown}." if shown else "You didn't provide an API key.",
                         "invalid_api_key")  # fmt: skip
        if headers.get(b"content-type") != b"application/json":
            return fails(400, "you must provide a JSON body")
        request = json.loads(body)
        if unknown := request.keys() - _PARAMETERS:
            return fails(400, f"Unknown parameter: '{min(unknown)}'.", "unknown_parameter")
        if request.get("model") != MODEL:
            return fails(404, f"The model `{request.get('model')}` does not exist", "model_not_found")
        if not 0 <= request.get("temperature", 1) <= 2:
            return fails(400, "Invalid 'temperature': expected a value between 0 and 2")
        for message in request.get("messages") or [{}]:
            if message.get("role") not in _ROLES or not isinstance(message.get("content"), str):
                return fails(400, f"Invalid value in 'messages': {message}")
        return _format_complaint(request.get("response_format", {"type": "text"}))


def _format_complaint(given: Mapping[str, Any]) -> Reply | None:
    if given["type"] != "json_schema":
        return None if given["type"] in ("text", "json_object") else fails(400, "Invalid 'response_format.type'")
    name = given["json_schema"].get("name", "")
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        return fails(400, "Invalid 'response_format.json_schema.name'")
    problem = _strict_problem(given["json_schema"]["schema"])
    return fails(400, f"Invalid schema for response_format '{name}': {problem}") if problem else None


def _strict_problem(schema: Mapping[str, Any]) -> str:
    if unknown := schema.keys() - _KEYWORDS:
        return f"'{min(unknown)}' is not permitted."
    if schema.get("type") != "object":
        return ""
    if schema.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be supplied and to be false."
    if sorted(schema.get("required", [])) != sorted(schema["properties"]):
        return "'required' is required to be supplied and to be an array including every key in properties."
    return next(filter(None, map(_strict_problem, schema["properties"].values())), "")


@contextmanager
def served(*replies: Reply | Chooser, key: str | None = KEY, **settings: Any) -> Iterator[tuple[ChatJudge, FakeApi]]:
    """A real client of the fake API, and that API; `settings` are the client's."""
    api = FakeApi(*replies)
    with ServerThread(api.app) as server:
        yield ChatJudge(JudgeSettings(base_url=f"{server.url}/v1", model=MODEL, **settings), key), api
