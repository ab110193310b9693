"""A judge behind a chat-completions API."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from .answers import Completion, fitting_answer, read_completion, unusable
from .budget import request_not_sent, spend_request
from .question import (
    Answer,
    JudgeAnswerError,
    JudgeBudgetError,
    JudgeError,
    JudgeNotConfiguredError,
    JudgeUnreachableError,
    Message,
    Question,
    Reply,
    Usage,
    total,
)
from .settings import VOTE_TEMPERATURE, JudgeSettings, cost, secrets
from .transport import ChatApi, RefusedError, UnansweredError, backoff

logger = logging.getLogger(__name__)


@dataclass
class _Spent:
    """The requests of one question that may be billed."""

    completions: list[Completion] = field(default_factory=list)
    unanswered: int = 0


class ChatJudge:
    """Asks a model, with retries after transient failures; an invalid answer is sent back once for repair.

    A request whose `temperature` or `response_format` the server refuses is sent once more without it, and so are
    later ones. Works in several event loops, with at most `concurrency` open questions in each.
    """

    def __init__(self, settings: JudgeSettings, api_key: str | None = None, *, role: str = "judge") -> None:
        """`role` names it in errors. Raises JudgeNotConfiguredError if `settings` name no model."""
        if settings.model is None:
            raise JudgeNotConfiguredError("no judge is configured: set its model")
        self.settings = settings
        self._api_key = api_key
        self._api = ChatApi(settings, api_key)
        self._role = role
        self._left_out: dict[str, str] = {}
        """Parameters that the server refused, and the note about each."""
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @property
    def identity(self) -> str:
        """See `JudgeSettings.identity`."""
        return self.settings.identity

    async def ask(self, question: Question) -> Answer:
        """Answer. Raises JudgeUnreachableError or JudgeAnswerError, whose message names the judge, or
        JudgeBudgetError."""
        async with self._slot() as spent:
            value = await fitting_answer(
                lambda messages: self._complete(self._request(messages, question), spent), question
            )
        model = spent.completions[-1].model or str(self.settings.model)
        return Answer(value, model, self._usage(spent), notes=tuple(self._left_out.values()))

    async def reply(self, messages: Sequence[Message], seed: int | None = None) -> Reply:
        """What the model writes next in a conversation. Raises JudgeError, as `ask` does."""
        request = self._model_request(messages) | ({} if seed is None else {"seed": seed})
        async with self._slot() as spent:
            completion = await self._complete(request, spent)
        return Reply(completion.text, completion.model or str(self.settings.model), self._usage(spent))

    async def _complete(self, request: Mapping[str, Any], spent: _Spent) -> Completion:
        body: Any = None
        try:
            body = await self._send(request, spent)
            spent.completions.append(read_completion(body))
        except JudgeAnswerError:
            spent.completions += unusable(body)
            raise
        return spent.completions[-1]

    async def _send(self, request: Mapping[str, Any], spent: _Spent) -> Any:
        """The first successful response to `request`; transient failures are retried.

        Where the budget ends the retries, the failure counts: JudgeUnreachableError is raised."""
        attempt, problem = 0, ""
        while True:
            request = {name: value for name, value in request.items() if name not in self._left_out}
            wait: float | None = backoff(attempt)
            try:
                spend_request()
            except JudgeBudgetError as error:
                if problem:
                    raise JudgeUnreachableError(self._message(f"{problem}; no retry, as {error}")) from None
                raise
            try:
                async with asyncio.timeout(self.settings.timeout):
                    return await self._api.complete(request)
            except TimeoutError:
                problem = f"no answer within {self.settings.timeout:g} s"
                spent.unanswered += 1
            except UnansweredError as error:
                problem = str(error)
                spent.unanswered += error.billed
                if not error.billed:
                    request_not_sent()
            except RefusedError as error:
                if self._leaves_out(refused_member(error, request), error):
                    continue
                problem, wait = error.retry(attempt)
                if error.status in (400, 422) and "max_tokens" in request and "max_completion_tokens" in str(error):
                    # a reasoning model wants another limit of tokens
                    problem += (
                        "; replace `max_tokens` by `max_completion_tokens` under `extra_body` in the judge's settings"
                    )
            if wait is None or attempt >= self.settings.retries:
                attempts = "" if attempt == 0 else f" (after {attempt + 1} attempts)"
                raise JudgeUnreachableError(self._message(f"{problem}{attempts}"))
            await asyncio.sleep(wait)
            attempt += 1

    def _leaves_out(self, member: str, error: RefusedError) -> bool:
        """Whether later requests leave out `member`, which the server refused."""
        if member not in _OPTIONAL:
            return False
        if member not in self._left_out:
            self._left_out[member] = f"the server refuses {member}, which is left out"
            logger.warning("%s", self._message(f"{error}; requests no longer contain {member}"))
        return True

    def _model_request(self, messages: Sequence[Message], *, again: bool = False) -> dict[str, Any]:
        """`again`: an equal request was sent before."""
        request: dict[str, Any] = {**(self.settings.extra_body or {}), "model": self.settings.model}
        request["messages"] = messages
        if self.settings.temperature is not None:
            varied = again and self.settings.temperature == 0
            request.setdefault("temperature", VOTE_TEMPERATURE if varied else self.settings.temperature)
        return request

    def _request(self, messages: Sequence[Message], question: Question) -> dict[str, Any]:
        request = self._model_request(messages, again=question.vote > 0)
        if self.settings.response_format == "json_schema":
            request["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "strict": True, "schema": question.schema},
            }
        elif self.settings.response_format == "json_object":
            request["response_format"] = {"type": "json_object"}
        return request

    def _usage(self, spent: _Spent) -> Usage:
        tokens = ((completion.prompt_tokens, completion.completion_tokens) for completion in spent.completions)
        answered = total(Usage(1, *counts, cost(self.settings, *counts)) for counts in tokens)
        return answered + Usage(spent.unanswered, unanswered=spent.unanswered)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[_Spent]:
        """Context of one question, whose errors name the judge and what was spent."""
        spent = _Spent()
        slots = self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.settings.concurrency))
        async with slots:
            try:
                yield spent
            except JudgeAnswerError as error:
                raise JudgeAnswerError(self._message(str(error))).costing(self._usage(spent)) from None
            except JudgeError as error:
                raise error.costing(self._usage(spent)) from None

    def _message(self, problem: str) -> str:
        """An error message without the API key and other secrets: servers quote a refused key."""
        for secret in secrets(self.settings, self._api_key, os.environ):
            problem = problem.replace(secret, "***")
        return f"{self._role} {self.settings.model} at {self.settings.url}: {problem}"


def refused_member(error: RefusedError, request: Mapping[str, Any]) -> str:
    """The member of the request that the server refuses; empty if it refuses something else."""
    if error.status not in (400, 422):
        return ""
    if error.parameter in request:
        return error.parameter
    said = str(error).lower()
    if not _REFUSES.search(said):  # a server may quote the judged data
        return ""
    named = (member for words, member in _WORDS if member in request and any(word in said for word in words))
    return next(named, "")


_OPTIONAL = ("temperature", "response_format")
"""Members without which a question is the same: the prompt contains the schema."""

_WORDS = (
    (("temperature",), "temperature"),
    (
        ("response_format", "response format", "json_schema", "json schema", "json_object", "structured output"),
        "response_format",
    ),
)
"""Words in an error message, and the member of the request they refer to."""

_REFUSES = re.compile(r"support|available|invalid|allow|permitted|unknown|unrecogni|unexpected|deprecat")
