"""Reads the response of a chat-completions API: the completion, the JSON in it, or the error."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ..suite_fields import unique_keys
from ..texts import one_line
from .question import REPAIR, JudgeAnswerError, Message, Question

MAX_EXCERPT = 300
"""Maximum length of a server response quoted in an error, in characters."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a model. Tokens are None if the server did not count them."""

    text: str
    model: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None


class UnfitAnswerError(Exception):
    """An answer that is not the requested JSON; the message describes the problem."""


def read_completion(body: Any) -> Completion:
    """The first choice of a chat completion in its JSON form.

    Raises JudgeAnswerError for anything else, a refusal, or an answer that the server filtered.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise JudgeAnswerError(f"not a chat completion: {shortened(json.dumps(body))}") from None
    if refusal := message.get("refusal"):
        raise JudgeAnswerError(f"the model refused: {shortened(str(refusal))}")
    finish_reason = str(choice.get("finish_reason") or "")
    if finish_reason == "content_filter":
        raise JudgeAnswerError("the answer was filtered (finish_reason content_filter)")
    return _completion(body, content_text(content), str(body.get("model") or ""), finish_reason)


def unusable(body: Any) -> list[Completion]:
    """The billed part of a response that is not a usable completion; empty if it counts no tokens."""
    return [_completion(body)] if isinstance(body, Mapping) and isinstance(body.get("usage"), Mapping) else []


def _completion(body: Mapping[str, Any], text: str = "", model: str = "", finish_reason: str = "") -> Completion:
    usage = body.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    return Completion(
        text, model, finish_reason, _count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens"))
    )


async def fitting_answer(
    complete: Callable[[list[Message]], Awaitable[Completion]], question: Question
) -> dict[str, Any]:
    """The answer that `complete` gets to a question; one that does not fit is sent back once, for repair.

    Raises JudgeAnswerError, and what `complete` raises.
    """
    messages = question.messages()
    completion = await complete(messages)
    try:
        return read_answer(completion, question.schema, question.data.values())
    except UnfitAnswerError as unfit:
        repair = REPAIR.format(problem=unfit)
    messages += [{"role": "assistant", "content": completion.text}, {"role": "user", "content": repair}]
    completion = await complete(messages)
    try:
        return read_answer(completion, question.schema, question.data.values())
    except UnfitAnswerError as still:
        shown = shortened(completion.text) or "empty"
        problem = f"the answer is invalid, and so is its repair: {still}; the answer was {shown}"
        raise JudgeAnswerError(problem) from None


def read_answer(completion: Completion, schema: Mapping[str, Any], data: Iterable[str] = ()) -> dict[str, Any]:
    """The JSON object that `completion` is, checked against `schema`. Raises UnfitAnswerError.

    Reasoning before the answer, a code fence around it and additional keys are ignored; numbers and booleans may be
    quoted. With any other text around it, the object may be a quotation of the judged `data`, and so may one that
    stands there.
    """
    text = completion.text.rpartition("</think>")[2].strip()
    text = _FENCED.sub(r"\1", text)
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        if completion.finish_reason == "length":
            raise UnfitAnswerError("it was cut off before its end; be brief") from None
        if "{" in text:
            raise UnfitAnswerError(f"there is text around the JSON object, or it is not JSON: {error}") from None
        raise UnfitAnswerError("it is empty" if not text else f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UnfitAnswerError("it is not a JSON object")
    spelled = _SPACE_OR_ESCAPE.sub("", text)
    if any(spelled in _SPACE_OR_ESCAPE.sub("", judged) for judged in data):  # also within a JSON string
        raise UnfitAnswerError("it repeats JSON of the judged data, which is never the verdict; write your own reason")
    value = _lenient(value, schema)
    if problem := misfit(value, schema):
        raise UnfitAnswerError(problem)
    return value  # type: ignore[no-any-return]  # of a dict comes a dict


def _lenient(value: Any, schema: Mapping[str, Any]) -> Any:
    """`value` without keys that are not in `schema`, and with quoted numbers and booleans converted."""
    properties = schema.get("properties")
    if isinstance(value, dict) and isinstance(properties, Mapping):
        return {key: _lenient(item, properties[key]) for key, item in value.items() if key in properties}
    if isinstance(value, str) and schema.get("type") in ("integer", "number", "boolean"):
        try:
            unquoted = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return unquoted if isinstance(unquoted, bool | int | float) else value
    return value


def misfit(value: Any, schema: Mapping[str, Any]) -> str:
    """Why `value` does not fit `schema`; empty if it does."""
    error = best_match(Draft202012Validator(dict(schema)).iter_errors(value))
    if error is None:
        return ""
    place = error.json_path.removeprefix("$").removeprefix(".")
    return f"{place}: {shortened(error.message)}" if place else shortened(error.message)


def error_of(body: str) -> tuple[str, str | None, str]:
    """The body of an error response: its message, the error code of the API, and the parameter that `param` names, as
    OpenAI's do; message and parameter are empty if missing."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return shortened(body), None, ""
    error = found.get("error", found) if isinstance(found, dict) else found
    if not isinstance(error, dict):
        return shortened(str(error)), None, ""
    message = error.get("message") or error.get("detail") or json.dumps(error)
    code, parameter = error.get("code") or error.get("type"), error.get("param")
    return shortened(str(message)), None if code is None else str(code), parameter if isinstance(parameter, str) else ""


def shortened(text: str) -> str:
    """`text` on one line, cut for an error message."""
    return one_line(text, MAX_EXCERPT)


_SPACE_OR_ESCAPE = re.compile(r"[\s\\]+")

_FENCED = re.compile(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.DOTALL)


def content_text(content: Any) -> str:
    """The text of a message's `content`, which some servers send as a list of parts; empty for anything else."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
