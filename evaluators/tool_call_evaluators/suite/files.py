"""Reads the files of a suite: its own, and those with definitions of tools, prices and the agent's card."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from a2a_tool_capture.regular_files import open_regular

from ..model import ToolDefinition
from ..resources import Prices, read_prices
from ..suite_fields import TEXT, FieldError, SuiteFields, Value, at, checked_list, checked_object, each, text
from ..tool_classes import CLASSES, ToolClasses
from .yaml_document import MAX_BYTES, Node, SuiteError, read_document


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The directory of the suite's file (None without a file), and whether plug-ins outside it may run."""

    folder: Path | None = None
    allow_plugins: bool = False


def code_path(file: str, context: ReadContext) -> Path:
    """The path of a Python file that a suite names, relative to the suite. Raises FieldError if it may not run."""
    folder = context.folder or Path()
    path = folder / file
    if not (context.allow_plugins or path.resolve().is_relative_to(folder.resolve())):
        raise FieldError(
            f"{path} is outside the suite's directory; if you trust the suite, allow running it "
            "with --allow-plugins (in Python: allow_plugins=True)"
        )
    return path


def read_bytes(path: Path, most: int, kind: str) -> bytes:
    """The content of the file at `path`, `kind` in messages. Raises SuiteError if missing or over `most` bytes."""
    try:
        with open_regular(path) as file:
            data = file.read(most + 1)
    except OSError as error:
        hint = "; name a file in it" if isinstance(error, IsADirectoryError) else ""
        name = re.sub("^(https?:/)(?!/)", r"\1/", str(path))  # Path makes one slash of two
        if name.startswith(("http://", "https://")):
            hint = "; it is a URL: give that of an agent with --agent, and a file here"
        raise SuiteError(f"cannot be read: {error.strerror or error}{hint}", name) from None
    if len(data) > most:
        raise SuiteError(f"is larger than {most:,} bytes, the maximum size of {kind}", str(path))
    return data


def read_text(path: Path) -> str:
    """The text of the file at `path`. Raises SuiteError if it is missing, too large or not UTF-8."""
    data = read_bytes(path, MAX_BYTES, "a suite")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SuiteError(f"is not UTF-8: byte {error.start} cannot be decoded", str(path)) from None


def read_source(path: Path) -> Node:
    """The value of the YAML or JSON document in the file at `path`. Raises SuiteError."""
    document = read_document(read_text(path), str(path))
    return Node(document, document.value)


def _read_tools(value: Any, context: ReadContext) -> tuple[ToolDefinition, ...]:
    """A list of definitions (our form, OpenAI's, MCP's or A2E's); or the name of a file, relative to the suite, with
    such a list or an object with it under `tools` (as in MCP's `tools/list`).

    Raises FieldError for this value, SuiteError for an error in the file. Without a directory no file is read.
    """
    if not isinstance(value, str):
        return _definitions(value)
    tools = _named_file(value, context, "a list")
    if isinstance(tools.value, dict) and "tools" in tools.value:
        tools = tools.entries()["tools"]
    return tools.convert(_definitions)


def _definitions(value: Any) -> tuple[ToolDefinition, ...]:
    return each(lambda item: ToolDefinition.from_dict(checked_object(item)), value)


def _read_prices(value: Any, context: ReadContext) -> Prices:
    """Prices, or the name of a file with them, relative to the suite. Raises FieldError, SuiteError."""
    if not isinstance(value, str):
        return read_prices(value)
    return _named_file(value, context).convert(read_prices)


def _named_file(name: str, context: ReadContext, instead: str = "an object") -> Node:
    if context.folder is None:
        raise FieldError(f"expected {instead}: there is no directory to look for a file in")
    path = context.folder / text(name)
    if not path.is_file():
        raise FieldError(f"no such file: {path}")
    return read_source(path)


_PRICE = {"type": "number", "minimum": 0, "description": "Of a million tokens."}
PriceTable = Annotated[
    Prices,
    Value(
        _read_prices,
        {
            "anyOf": [
                {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "properties": {"input": _PRICE, "output": _PRICE},
                        "required": ["input", "output"],
                        "additionalProperties": False,
                    },
                },
                TEXT,
            ]
        },
        write=lambda prices: {model: price._asdict() for model, price in prices.items()},
        in_context=True,
    ),
]


@dataclass(frozen=True, slots=True)
class CardTags:
    """The tags of the skills in the agent card `file`, by the ids and names of the skills."""

    file: str
    tags: Mapping[str, tuple[str, ...]]


def _read_card(value: Any, context: ReadContext) -> CardTags:
    tags: dict[str, tuple[str, ...]] = {}
    for skill in _named_file(text(value), context).convert(_skills):
        own = tuple(tag for tag in checked_list(skill.get("tags", [])) if isinstance(tag, str))
        tags |= {name: own for key in ("id", "name") if isinstance(name := skill.get(key), str)}
    return CardTags(str((context.folder or Path()) / value), tags)


def _skills(card: Any) -> list[dict[str, Any]]:
    return [checked_object(skill) for skill in checked_list(checked_object(card, required=["skills"])["skills"])]


def _selector(value: Any) -> str | Mapping[str, str]:
    return (
        text(value) if not isinstance(value, dict) else {"tag": text(checked_object(value, ("tag",), ("tag",))["tag"])}
    )


_SELECTOR = Value(
    _selector,
    {
        "anyOf": [
            TEXT,
            {
                "type": "object",
                "properties": {"tag": {**TEXT, "description": "A tag in `tools`, or in the card."}},
                "required": ["tag"],
                "additionalProperties": False,
            },
        ]
    },
    write=lambda selector: selector,
)
Selectors = tuple[Annotated[str | Mapping[str, str], _SELECTOR], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes(SuiteFields):
    """Which tools only read, and which write. An entry is a name, a pattern such as `get_*`, or `{tag: NAME}`."""

    reads: Selectors = ()
    """Tools that change nothing."""
    writes: Selectors = ()
    """Tools that change something. A pattern here goes before one of `reads`."""
    card: Annotated[CardTags, Value(_read_card, TEXT, lambda card: card.file, in_context=True)] | None = None
    """A file with the agent's card, whose skills have tags. Their ids or names are the names of the tools."""

    def resolved(self, tools: Sequence[ToolDefinition] | None) -> ToolClasses:
        """The names and patterns of each class. Raises FieldError for a tag that no tool has, and for a name that is in
        both classes."""
        tagged = {tool.name: tool.tags for tool in tools or ()} | dict(self.card.tags if self.card else {})
        found: dict[str, tuple[str, ...]] = {}
        for name in CLASSES:
            patterns: list[str] = []
            for index, selector in enumerate(getattr(self, name)):
                patterns += (
                    [selector] if isinstance(selector, str) else at(name, partial(_tagged, tagged, index), selector)
                )
            found[name] = tuple(patterns)
        if twice := [tool for tool in found["reads"] if tool in found["writes"]]:
            raise FieldError(f"{twice[0]} is in reads and in writes", "writes")
        return found


def _tagged(tags: Mapping[str, Sequence[str]], index: int, selector: Mapping[str, str]) -> list[str]:
    found = [tool for tool, own in tags.items() if selector["tag"] in own]
    if not found:
        raise FieldError(f"no tool of `tools`, and no skill of `card`, has the tag {selector['tag']!r}", index)
    return found


_LIST = {"type": "array", "items": {"type": "object", "description": "In our form, OpenAI's, MCP's or A2E's."}}

Tools = Annotated[
    tuple[ToolDefinition, ...],
    Value(
        _read_tools,
        {"anyOf": [_LIST, TEXT]},
        write=lambda tools: [tool.to_dict() for tool in tools],
        in_context=True,
    ),
]
