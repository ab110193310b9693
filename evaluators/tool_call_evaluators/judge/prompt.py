"""Versioned prompt files, and the messages for a model.

Text of the agent and its tools is data. It is placed between lines with a random word, which its author cannot know,
and the instructions forbid following anything in between.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

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
