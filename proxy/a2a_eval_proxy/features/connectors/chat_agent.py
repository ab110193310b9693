"""An agent that is a model behind an OpenAI-compatible chat-completions API, with the functions of a Python module."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx
from a2a_tool_capture.connector import recorder
from a2a_tool_capture.environment_proxies import EnvironmentTransport, UnusableProxyError
from a2a_tool_capture.errors import (
    AgentUnreachableError,
    ConfigurationError,
    connection_problem,
    is_web_page,
    not_of_the_agent,
)
from a2a_tool_capture.json_values import describe, plain_text
from a2a_tool_capture.secret_references import resolve_header
from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs
from tool_call_evaluators.evaluator import FAILURES
from tool_call_evaluators.judge.answers import content_text, shortened
from tool_call_evaluators.judge.transport import RefusedError, backoff

from ...errors import ConfigError
from .conversations import ModelUnreachableError, called
from .loading import load_module


class ToolModule:
    """Functions and coroutine functions that a model may call, by name."""

    def __init__(self, source: str) -> None:
        """Raises ConfigError if the module cannot be imported, has no function, or one without a JSON Schema."""
        setting = f"--agent-tools {source}"
        module = load_module(source, setting)
        self._tools: dict[str, TypeAdapter[Any]] = {}
        self.definitions: list[dict[str, Any]] = []
        """As the `tools` of a request."""
        for name, function in vars(module).items():
            if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            try:
                self._tools[name] = TypeAdapter(function)
                parameters = self._tools[name].json_schema()
            except (PydanticUserError, NameError) as error:
                raise ConfigError(f"{setting}: the parameters of {name} have no JSON Schema: {error}") from None
            if parameters.get("type") != "object":
                raise ConfigError(f"{setting}: {name} has positional parameters; a model passes arguments by name")
            definition = {"name": name, "description": inspect.getdoc(function) or "", "parameters": parameters}
            self.definitions.append({"type": "function", "function": definition})
        if not self._tools:
            raise ConfigError(f"{setting}: expected public functions in {source}, found none")

    async def call(self, name: str, arguments: str, call_id: str) -> str:
        """Run a tool with arguments in JSON text, and record the call. Returns the result, or the error, as text."""
        try:
            with recorder.call(name, arguments, id=call_id) as call:
                call.result = await called(self._bound(name, arguments))
                return plain_text(call.result)
        except FAILURES as error:  # the model decides what to do next
            return f"Error: {describe(error) or type(error).__name__}"

    def _bound(self, name: str, arguments: str) -> Callable[[], Any]:
        if name not in self._tools:
            raise LookupError(f"there is no tool {name}; the tools are {', '.join(self._tools)}")
        try:
            given = json.loads(arguments or "{}")
        except ValueError as error:
            raise ValueError(f"the arguments of {name} are not JSON: {error}") from None
        if not isinstance(given, dict):
            raise TypeError(f"the arguments of {name} are not an object")

        def bound() -> Any:
            try:
                return self._tools[name].validate_python(ArgsKwargs((), given))
            except ValidationError as error:
                problems = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
                raise ValueError(f"invalid arguments of {name}: {'; '.join(problems)}") from None

        return bound


KEY_VARIABLES = ("A2A_EVAL_PROXY_AGENT_API_KEY", "OPENAI_API_KEY")
"""Environment variables with the key, the first takes precedence; sent unless a header carries credentials."""

RETRIES = 4
"""Of a request that failed for a reason that may pass, such as a rate limit."""

CONNECT_TIMEOUT_S = 10.0


def endpoint(url: str) -> str:
    """Where completions are requested; `url` is the base URL of an API, or `.../chat/completions` itself."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith("/chat/completions") else f"{path}/chat/completions").geturl()


class ChatApiError(Exception):
    """The API gave no completion; the message says why, without the key."""


@dataclass(frozen=True, repr=False)
class ChatApi:
    """An endpoint, and what every request has. `${VARIABLE}` and `${file:PATH}` in headers are expanded."""

    endpoint: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None

    def client(self) -> httpx.AsyncClient:
        """A client with the headers. Raises ConfigurationError for a variable or file that does not exist."""
        headers = {name: resolve_header(name, value) for name, value in self.headers.items()}
        key = next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), None)
        if key and not _CREDENTIALS & {name.lower() for name in headers}:
            headers["Authorization"] = f"Bearer {key}"
        timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)  # a turn has a time limit
        verify = self.tls or True
        query = self.endpoint.partition("?")[2]
        transport = _QueryTransport(query, verify) if query else EnvironmentTransport(verify)
        return httpx.AsyncClient(headers=headers, timeout=timeout, transport=transport)

    @property
    def _url(self) -> str:
        return self.endpoint.partition("?")[0]

    async def reach(self) -> None:
        """Raises AgentUnreachableError if nothing answers at the endpoint; any response is an answer."""
        async with self.client() as client:
            try:
                async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
                    await client.head(self._url)
            except UnusableProxyError as error:
                raise ConfigurationError(self._problem(client, str(error))) from error
            except (httpx.TransportError, TimeoutError) as error:
                raise AgentUnreachableError(self._problem(client, connection_problem(error))) from error

    async def complete(self, client: httpx.AsyncClient, members: Mapping[str, Any]) -> dict[str, Any]:
        """The message of a completion. Raises ChatApiError, and ModelUnreachableError."""
        request = {**self.body, **members}
        attempt = 0
        kind: type[Exception]
        wait: float | None
        while True:
            try:
                response = await client.post(self._url, json=request)
            except httpx.RequestError as error:
                kind, problem, wait = ModelUnreachableError, connection_problem(error), backoff(attempt)
            else:
                if response.is_success:
                    return self._message(client, response)
                is_others = not_of_the_agent(response.status_code, response.headers)
                kind = ModelUnreachableError if is_others else ChatApiError
                problem, wait = RefusedError.of(response).retry(attempt)
                if response.status_code in (401, 403):
                    problem += f"; give the key in {' or '.join(KEY_VARIABLES)}, or a --header"
            if wait is None or attempt >= RETRIES:
                raise kind(self._problem(client, problem))
            await asyncio.sleep(wait)
            attempt += 1

    def _message(self, client: httpx.AsyncClient, response: httpx.Response) -> dict[str, Any]:
        try:
            message: dict[str, Any] = response.json()["choices"][0]["message"]
            if isinstance(message.get("tool_calls") or [], list):
                return message
        except (ValueError, RecursionError, KeyError, IndexError, TypeError, AttributeError):
            pass
        if is_web_page(response.headers, response.text):
            raise ModelUnreachableError(self._problem(client, "a web page; is it a chat-completions API?"))
        raise ChatApiError(self._problem(client, f"not a chat completion: {shortened(response.text)}"))

    def _problem(self, client: httpx.AsyncClient, problem: str) -> str:
        """Without the secrets in headers and query: servers quote a refused key."""
        query = self.endpoint.partition("?")[2]
        secrets = [value.removeprefix("Bearer ") for name, value in client.headers.items() if name not in _PLAIN]
        for secret in (*secrets, *(pair.partition("=")[2] for pair in query.split("&"))):
            if len(secret) > 3:
                problem = problem.replace(secret, "***")
        return f"{self._url}: {problem}"


class _QueryTransport(EnvironmentTransport):
    """Adds a query, which may hold a key, to requests that have none: httpx logs the URL of what it is given."""

    def __init__(self, query: str, verify: ssl.SSLContext | bool) -> None:
        super().__init__(verify=verify)
        self._query = query.encode()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url.copy_with(query=self._query)
        sent = httpx.Request(
            request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
        )
        return await super().handle_async_request(sent)


_CREDENTIALS = frozenset({"authorization", "api-key", "x-api-key"})
"""Headers that make a key from the environment needless."""

_PLAIN = frozenset({"accept", "accept-encoding", "connection", "user-agent"})
"""Headers that every client sends."""


MAX_ROUNDS = 20
"""Requests for one user message: each is sent after the results of the tools that the last response called."""

NOT_RUN = "The tool was not run."
"""The result that the model gets for a call where no Python module has the tools."""


class ChatAgent:
    """A conversation with a model. The tool calls in its messages are recorded."""

    def __init__(
        self, api: ChatApi, first: list[dict[str, Any]], tools: ToolModule | None, *, with_metadata: bool
    ) -> None:
        """`with_metadata`: requests carry the conversation's `chat_id` and `turn_id`."""
        self._api = api
        self._with_metadata = with_metadata
        self._client = api.client()
        self._messages = first
        self._tools = tools

    async def execute(self, user_query: str, metadata: Mapping[str, Any] | None = None, seed: int | None = None) -> str:
        """The model's answer, drawn with `seed`.

        Without a `ToolModule`, calls end the turn: they are recorded, and nothing is run. Raises ChatApiError.
        """
        messages = [*self._messages, {"role": "user", "content": user_query}]
        further: dict[str, Any] = {"tools": self._tools.definitions} if self._tools else {}
        if self._with_metadata:
            further["metadata"] = metadata
        if seed is not None:
            further["seed"] = seed
        for _ in range(MAX_ROUNDS):
            message = await self._api.complete(self._client, {"messages": messages, **further})
            messages.append({"role": "assistant", **message})
            calls = [_RequestedCall.read(call) for call in message.get("tool_calls") or ()]
            messages += [await self._result(call) for call in calls]
            if self._tools is None or not calls:
                self._messages = messages
                return content_text(message.get("content")) or str(message.get("refusal") or "")
        raise ChatApiError(f"the model calls tools without end: {MAX_ROUNDS} requests for one message")

    async def close(self) -> None:
        await self._client.aclose()

    async def _result(self, call: _RequestedCall) -> dict[str, Any]:
        if self._tools is None:
            recorder.started(call.name, call.arguments, id=call.id)
            result = NOT_RUN
        else:
            result = await self._tools.call(call.name, call.arguments, call.id)
        return {"role": "tool", "tool_call_id": call.id, "content": result}


@dataclass(frozen=True, slots=True)
class _RequestedCall:
    id: str
    name: str
    arguments: str

    @classmethod
    def read(cls, call: Any) -> _RequestedCall:
        """One of a message's `tool_calls`. Raises ChatApiError."""
        try:
            function = call["function"]
            read = cls(str(call.get("id") or ""), function["name"], function.get("arguments") or "{}")
        except (TypeError, KeyError, AttributeError):
            raise ChatApiError("the model's message has a tool call without a function") from None
        if not isinstance(read.name, str) or not isinstance(read.arguments, str):
            raise ChatApiError("the model's message has a tool call whose name or arguments are no text")
        return read
