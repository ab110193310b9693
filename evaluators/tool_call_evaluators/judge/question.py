"""The question of an evaluator and its prompt, the answer of a judge and its cost, and the errors of judging.

    JudgeError
    ├── JudgeNotConfiguredError   the configuration: no judge is configured
    ├── JudgeUnreachableError     the connection: no connection, a timeout, or an HTTP error
    ├── JudgeAnswerError          the answer: the judge answered, but the answer is invalid
    └── JudgeBudgetError          the budget: this period has no further request

The messages of errors name the judge and never contain its key. Text of the agent and its tools is data: it is placed
between lines with a random word, which its author cannot know, and the instructions forbid following anything in
between.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, runtime_checkable

from a2a_tool_capture.canonical import canonical

from ..texts import counted


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of answers. Tokens are None if the judge did not report them, `cost` also without prices.

    `cost` is in the currency of the prices. `requests` counts the requests that may be billed: every answered one,
    repairs included, and every one without an answer (`unanswered`: a timeout, a broken connection), whose tokens
    are unknown. Refused requests are not billed.
    """

    requests: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost: float | None = 0.0
    unanswered: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            _sum(self.prompt_tokens, other.prompt_tokens),
            _sum(self.completion_tokens, other.completion_tokens),
            _sum(self.cost, other.cost),
            self.unanswered + other.unanswered,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form; without `unanswered` if it is 0."""
        return {name: value for name, value in asdict(self).items() if name != "unanswered" or value}


def total(usages: Iterable[Usage]) -> Usage:
    """The sum; that of no usages is zero, not unknown."""
    return sum(usages, start=Usage())


def usage_text(usage: Usage) -> str:
    """`12 requests, 1,200 + 340 tokens, cost 0.0031`: the cost of judges; empty if no judge was asked."""
    if not usage.requests:
        return ""
    parts = [counted(usage.requests, "request")]
    if usage.unanswered:
        parts[0] += f" ({usage.unanswered:,} without an answer, tokens unknown)"
    if usage.prompt_tokens is not None and usage.completion_tokens is not None:
        parts.append(f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens")
    if usage.cost:
        parts.append(f"cost {usage.cost:.4g}")
    return ", ".join(parts)


def _sum(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other


class JudgeError(Exception):
    """There is no verdict; the message says why. `usage` is the cost: invalid answers, and votes that arrived while
    another failed, are billed too."""

    usage: Usage = Usage()

    def costing(self, usage: Usage) -> JudgeError:
        self.usage = usage
        return self

    @property
    def details(self) -> dict[str, Any]:
        """The `details` of an errored result."""
        return {"judge": self.usage.to_dict()} if self.usage.requests else {}


class JudgeNotConfiguredError(JudgeError):
    """No judge is configured, or its configuration is incomplete."""

    exit_code = 2
    """Exit code of a command that ends with this error: bad usage or input."""


class JudgeUnreachableError(JudgeError):
    """The judge could not be reached: no connection, a timeout, or an HTTP error, after all retries."""


class JudgeAnswerError(JudgeError):
    """The judge answered, but its answer is invalid."""


class JudgeBudgetError(JudgeError):
    """The judge is not asked, as the budget is spent: results are skipped, not errored."""


FRAME = "_frame"
"""The name of the instructions that all prompts share."""
REPAIR = "Your answer cannot be used: {problem}. Answer again, with nothing but the JSON object that was asked for."
"""The reply to an answer that does not fit the question."""
_SUFFIX = ".md"

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Prompt:
    """The instructions of one evaluator. `version` is raised whenever `text` changes."""

    name: str
    version: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@cache
def load_prompt(name: str) -> Prompt:
    """The prompt in the file `prompts/{name}.md`, whose first line is `version: N`.

    Raises LookupError for a name without a file, ValueError for a file without a version.
    """
    if name not in (*prompt_names(), FRAME):
        raise LookupError(f"no prompt {name!r}; known are {', '.join(prompt_names())}")
    head, _, text = _folder().joinpath(name + _SUFFIX).read_text(encoding="utf-8").partition("\n")
    key, _, version = head.partition(": ")
    if key != "version" or not version:
        raise ValueError(f"prompt {name}: the first line must be `version: N`, not {head!r}")
    return Prompt(name, version, text.strip())


@cache
def prompt_names() -> tuple[str, ...]:
    names = (item.name.removesuffix(_SUFFIX) for item in _folder().iterdir() if item.name.endswith(_SUFFIX))
    return tuple(sorted(name for name in names if name != FRAME))


def render(text: str, data: Mapping[str, str], schema: Mapping[str, Any]) -> list[Message]:
    """The messages for a model: instructions, then the data in blocks with a new random fence."""
    fence = _new_fence(data)
    frame = load_prompt(FRAME).text.replace("{{fence}}", fence).replace("{{schema}}", json.dumps(schema))
    blocks = (f"[BEGIN {fence} {label}]\n{content}\n[END {fence} {label}]" for label, content in data.items())
    return [
        {"role": "system", "content": f"{text}\n\n{frame}"},
        {"role": "user", "content": "\n\n".join(blocks)},
    ]


def _new_fence(data: Mapping[str, str]) -> str:
    while True:
        fence = secrets.token_hex(8)
        if not any(fence in content for content in data.values()):
            return fence


def _folder() -> Any:
    return files(__package__).joinpath("prompts")


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a judge.

    `data` holds the judged, untrusted texts by label; `criteria` is text of the suite's author, which the judge
    follows. The answer must fit `schema`, a JSON Schema of an object. `vote` numbers the repetitions of a question.
    """

    prompt: Prompt
    data: Mapping[str, str]
    schema: Mapping[str, Any]
    criteria: str = ""
    vote: int = 0

    def messages(self) -> list[Message]:
        """The question as chat messages. The fences around the data differ from one call to the next."""
        text = f"{self.prompt.text}\n\n# Criteria\n\n{self.criteria}" if self.criteria else self.prompt.text
        return render(text, self.data, self.schema)

    def key(self, judge: str) -> str:
        """A hash (64 hex digits) that is equal only for the same question to the same judge.

        `judge` identifies the judge and everything on which its answers depend.
        """
        content = [
            judge,
            load_prompt(FRAME).version,
            str(self.prompt),
            self.prompt.text,
            self.criteria,
            list(self.data.items()),
            self.schema,
            self.vote,
        ]
        return hashlib.sha256(canonical(content).encode()).hexdigest()


def order_swapped(question: Question) -> Question:
    """The question with the choices of its schema in the opposite order."""
    return replace(question, schema=_swapped(question.schema))


def _swapped(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    swapped = {key: _swapped(value) for key, value in schema.items()}
    if schema.get("type") == "string" and "enum" in schema:
        swapped["enum"] = schema["enum"][::-1]
    return swapped


@dataclass(frozen=True, slots=True)
class Answer:
    """A judge's answer: `value` fits the question's schema, `model` is the name that the API returns, `notes` are
    about how it was asked."""

    value: Mapping[str, Any]
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    cached: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's next message in a conversation; `model` is the name that the API returns."""

    text: str
    model: str = ""
    usage: Usage = field(default_factory=Usage)


@runtime_checkable
class Judge(Protocol):
    """Anything that answers questions."""

    async def ask(self, question: Question) -> Answer:
        """Answer. Raises JudgeError if no answer fits the question's schema."""
