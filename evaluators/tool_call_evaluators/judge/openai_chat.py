"""A judge behind an OpenAI-compatible chat-completions API."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import httpx

from .answers import Completion, UnfitAnswerError, error_of, read_answer, read_completion, shortened, unusable
from .errors import JudgeAnswerError, JudgeError, JudgeNotConfiguredError, JudgeUnreachableError
from .prompt import REPAIR, Message
from .question import Answer, Question
from .retry import LONGEST_WAIT_S, asked_wait, backoff, is_transient
from .settings import VOTE_TEMPERATURE, JudgeSettings
from .usage import Usage, total


class ChatJudge:
    """Asks a model, with retries after transient failures; an invalid answer is sent back once for repair.

    Works in several event loops, with at most `concurrency` open questions in each. Every question opens its own
    connection: that is fast compared with a verdict, and no pool must be closed or tied to a loop.
    """

    def __init__(self, settings: JudgeSettings, api_key: str | None = None) -> None:
        """Raises JudgeNotConfiguredError if `settings` name no model."""
        if settings.model is None:
            raise JudgeNotConfiguredError("no judge is configured: set its model")
        self.settings = settings
        self._api_key = api_key
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> ChatJudge:
        """The judge configured by the environment alone. Raises JudgeNotConfiguredError without a model."""
        settings = JudgeSettings().with_environment(environ)
        return cls(settings, settings.api_key(environ))

    def __repr__(self) -> str:
        return f"ChatJudge({self.settings.model!r} at {self.settings.url})"

    async def ask(self, question: Question) -> Answer:
        """Answer. Raises JudgeUnreachableError or JudgeAnswerError, whose message names the judge."""
        completions: list[Completion] = []
        async with self._slot(), httpx.AsyncClient(verify=_tls(), timeout=None) as client:  # noqa: S113  # own deadline
            try:
                value = await self._answer(client, question, completions)
            except JudgeError as error:
                raise error.costing(self._spent(completions)) from None
        return Answer(value, completions[-1].model or str(self.settings.model), self._spent(completions))

    async def _answer(
        self, client: httpx.AsyncClient, question: Question, completions: list[Completion]
    ) -> dict[str, Any]:
        """The answer of the model, or its repair; appends billed completions to `completions`."""
        messages = question.messages()
        completion = await self._complete(client, messages, question, completions)
        try:
            return read_answer(completion, question.schema)
        except UnfitAnswerError as unfit:
            repair = REPAIR.format(problem=unfit)
        messages += [{"role": "assistant", "content": completion.text}, {"role": "user", "content": repair}]
        completion = await self._complete(client, messages, question, completions)
        try:
            return read_answer(completion, question.schema)
        except UnfitAnswerError as still:
            shown = shortened(completion.text) or "empty"
            problem = f"the answer is invalid, and so is its repair: {still}; the answer was {shown}"
            raise JudgeAnswerError(self._message(problem)) from None

    async def _complete(
        self, client: httpx.AsyncClient, messages: list[Message], question: Question, completions: list[Completion]
    ) -> Completion:
        response = await self._send(client, self._request(messages, question))
        try:
            body = response.json()
        except (ValueError, RecursionError):
            raise JudgeAnswerError(self._message(f"not JSON: {shortened(response.text)}")) from None
        try:
            completions.append(read_completion(body))
        except JudgeAnswerError as error:
            completions += unusable(body)
            raise JudgeAnswerError(self._message(str(error))) from None
        return completions[-1]

    async def _send(self, client: httpx.AsyncClient, request: Mapping[str, Any]) -> httpx.Response:
        """The first successful response to `request`; transient failures are retried."""
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        attempt = 0
        while True:
            wait: float | None = backoff(attempt)
            try:
                async with asyncio.timeout(self.settings.timeout):
                    response = await client.post(f"{self.settings.url}/chat/completions", json=request, headers=headers)
            except TimeoutError:
                problem = f"no answer within {self.settings.timeout:g} s"
            except httpx.RequestError as error:
                problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                if response.is_success:
                    return response
                problem, wait = _refused(response, attempt)
                problem += _hint(problem, request)
            if wait is None or attempt >= self.settings.retries:
                attempts = "" if attempt == 0 else f" (after {attempt + 1} attempts)"
                raise JudgeUnreachableError(self._message(f"{problem}{attempts}"))
            await asyncio.sleep(wait)
            attempt += 1

    def _request(self, messages: list[Message], question: Question) -> dict[str, Any]:
        request: dict[str, Any] = {**(self.settings.extra_body or {}), "model": self.settings.model}
        request["messages"] = messages
        if self.settings.temperature is not None:
            again = question.vote > 0 and self.settings.temperature == 0
            request.setdefault("temperature", VOTE_TEMPERATURE if again else self.settings.temperature)
        if self.settings.response_format == "json_schema":
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "strict": True, "schema": question.schema},
            }
        elif self.settings.response_format == "json_object":
            request["response_format"] = {"type": "json_object"}
        return request

    def _spent(self, completions: Iterable[Completion]) -> Usage:
        tokens = ((completion.prompt_tokens, completion.completion_tokens) for completion in completions)
        return total(Usage(1, *counts, self.settings.cost(*counts)) for counts in tokens)

    def _slot(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop not in self._slots:
            self._slots[loop] = asyncio.Semaphore(self.settings.concurrency)
        return self._slots[loop]

    def _message(self, problem: str) -> str:
        """An error message without the API key: servers quote a refused key."""
        if self._api_key:
            problem = problem.replace(self._api_key, "***")
        return f"judge {self.settings.model} at {self.settings.url}: {problem}"


def _refused(response: httpx.Response, attempt: int) -> tuple[str, float | None]:
    """The message of an error response, and the seconds to wait before a retry; None: a retry would not help."""
    message, code = error_of(response.text)
    problem = f"HTTP {response.status_code}" + (f": {message}" if message else "")
    if not is_transient(response.status_code, code):
        return problem, None
    asked = asked_wait(response.headers, datetime.now(UTC))
    if asked is None:
        return problem, backoff(attempt)
    if asked > LONGEST_WAIT_S:
        return f"{problem}; the server asks to wait {asked:.0f} s", None
    return problem, asked


def _hint(problem: str, request: Mapping[str, Any]) -> str:
    """The setting to change if a server refuses a member of the request."""
    if not problem.startswith(("HTTP 400", "HTTP 422")):
        return ""
    for words, member, advice in _HINTS:
        if member in request and any(word in problem.lower() for word in words):
            return f"; {advice} in the judge's settings"
    return ""


_HINTS = (
    (("temperature",), "temperature", "set `temperature: null`"),
    (
        ("response_format", "response format", "json_schema", "json schema", "json_object", "structured output"),
        "response_format",
        "set `response_format: json_object` or `response_format: text`",
    ),
    (("max_completion_tokens",), "max_tokens", "replace `max_tokens` by `max_completion_tokens` under `extra_body`"),
)
"""Words in an error message, the member of the request they refer to, and the advice."""


@cache
def _tls() -> ssl.SSLContext:
    """Created once: loading the certificates takes longer than a connection."""
    return httpx.create_ssl_context()
