"""An agent that is a model behind an OpenAI-compatible chat-completions API, whose tool calls are recorded."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Iterable, Mapping
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
from a2a_tool_capture.secret_references import resolve_header
from tool_call_evaluators.judge.answers import content_text, shortened
from tool_call_evaluators.judge.transport import RefusedError, backoff

from .conversations import ModelUnreachableError

logging.getLogger("httpx").setLevel(logging.WARNING)  # below that, it logs URLs, whose query may hold a key

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
class ChatEndpoint:
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
        return httpx.AsyncClient(headers=headers, timeout=timeout, transport=EnvironmentTransport(self.tls or True))

    async def reach(self) -> None:
        """Raises AgentUnreachableError if nothing answers at the endpoint; any response is an answer."""
        async with self.client() as client:
            try:
                async with asyncio.timeout(2 * CONNECT_TIMEOUT_S):
                    await client.head(self.endpoint)
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
                response = await client.post(self.endpoint, json=request)
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
        url, _, query = self.endpoint.partition("?")
        secrets = [value.removeprefix("Bearer ") for name, value in client.headers.items() if name not in _PLAIN]
        for secret in (*secrets, *(pair.partition("=")[2] for pair in query.split("&"))):
            if len(secret) > 3:
                problem = problem.replace(secret, "***")
        return f"{url}: {problem}"


_CREDENTIALS = frozenset({"authorization", "api-key", "x-api-key"})
"""Headers that make a key from the environment needless."""

_PLAIN = frozenset({"accept", "accept-encoding", "connection", "user-agent"})


NOT_RUN = "The tool was not run."


class ChatAgent:
    """A conversation with a model. The tool calls in its messages are recorded, and end the turn: nothing is run."""

    def __init__(self, api: ChatEndpoint, first: list[dict[str, Any]], *, with_metadata: bool) -> None:
        """`with_metadata`: requests carry the conversation's `chat_id` and `turn_id`."""
        self._api = api
        self._with_metadata = with_metadata
        self._client = api.client()
        self._messages = first

    def remember(self, said: Iterable[tuple[str, str]]) -> None:
        """What the user has said, and the model answered, before the next message."""
        for user, answer in said:
            sent = {"role": "user", "content": user}
            self._messages = [*self._messages, sent, {"role": "assistant", "content": answer}]

    async def execute(self, user_query: str, metadata: Mapping[str, Any] | None = None, seed: int | None = None) -> str:
        """The model's answer, drawn with `seed`. Raises ChatApiError."""
        messages = [*self._messages, {"role": "user", "content": user_query}]
        request: dict[str, Any] = {"messages": messages}
        if self._with_metadata:
            request["metadata"] = metadata
        if seed is not None:
            request["seed"] = seed
        message = await self._api.complete(self._client, request)
        results = list(map(_recorded, message.get("tool_calls") or ()))
        self._messages = [*messages, {"role": "assistant", **message}, *results]
        return content_text(message.get("content")) or str(message.get("refusal") or "")

    async def close(self) -> None:
        await self._client.aclose()


def _recorded(call: Any) -> dict[str, Any]:
    """Record one of a message's `tool_calls`; returns the message with its result. Raises ChatApiError."""
    try:
        function, call_id = call["function"], str(call.get("id") or "")
        name, arguments = function["name"], function.get("arguments") or "{}"
    except (TypeError, KeyError, AttributeError):
        raise ChatApiError("the model's message has a tool call without a function") from None
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise ChatApiError("the model's message has a tool call whose name or arguments are no text")
    recorder.started(name, arguments, id=call_id)
    return {"role": "tool", "tool_call_id": call_id, "content": NOT_RUN}
