"""Writes a suite as the text of a suite file, which `parsing` reads back, and plain values as readable YAML 1.2.

Ids of cases are made here too: they are sent in a header, so they are printable, without surrounding white space.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from unicodedata import normalize

from ..matching.placeholders import inner_values, with_inner
from ..texts import MISSING_CHARACTER
from ..type_conversion import adapter
from .model import Case, Suite
from .yaml_document import plain_value

MAX_LENGTH = 48
"""Maximum length of an id that is made of a text, in characters."""


def slug(text: str, limit: int = MAX_LENGTH) -> str:
    """The first words of `text` in lower case, as in `für-ord-1001`. Letters of all scripts stay; may be empty."""
    words = re.findall(r"[^\W_]+", normalize("NFC", text.casefold()))
    made = words[0][:limit] if words else ""
    for word in words[1:]:
        if len(made) + 1 + len(word) > limit:
            break
        made = f"{made}-{word}"
    return made


def printable_id(text: str) -> str:
    """`text` as the id of a case, on one line; `case` if nothing printable remains."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split()) or "case"


def free_id(wanted: str, taken: set[str]) -> str:
    """`wanted`, with a number if it is already `taken`; adds the returned id to `taken`."""
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    taken.add(name)
    return name


WIDTH = 110
"""Maximum line width, in columns: lists and objects that fit are written on one line."""

# no leading indicator, none that ends a word in flow style, no beginning of a comment or a key
_PLAIN = re.compile(
    r"[\w/+$€£(][^\x00-\x1f\x7f-\x9f\[\]{},#:&*!|>'\"%`\\\ufeff\ufffe\uffff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]*(?<!\s)"
)
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, including those that change the displayed order of others."""


def block(value: Any, indent: int = 0) -> list[str]:
    """`value` as lines, each indented by `indent` blanks; short lists and objects inside it on one line."""
    pad = " " * indent
    if isinstance(value, Mapping) and value:
        lines = []
        for key, item in value.items():
            lines += entry_lines(f"{pad}{scalar(str(key))}:", item, indent + 2)
        return lines
    if isinstance(value, list | tuple) and value:
        return [line for item in value for line in item_lines(item, indent)]
    return [pad + flow(value)]


def flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def scalar(value: Any) -> str:
    """A string, number, boolean or null; strings that would be read as something else are quoted.

    Raises ValueError for NaN and infinity, which `yaml_document` does not read.
    """
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and plain_value(value) == value else _quoted(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} cannot be written")
    return json.dumps(value)


def entry_lines(head: str, value: Any, indent: int) -> list[str]:
    """`head` followed by `value`, on the same line or below."""
    if isinstance(value, str) and "\n" in value and (literal := _literal(value, indent)):
        return [f"{head} {literal[0]}", *literal[1:]]
    line = f"{head} {flow(value)}"
    fits = len(line) <= WIDTH and not _has_lines(value) and _depth(value) <= 4
    if fits or not isinstance(value, Mapping | list | tuple) or not value:
        return [line]
    return [head, *block(value, indent)]


def item_lines(value: Any, indent: int) -> list[str]:
    pad = " " * indent
    if isinstance(value, Mapping) and value:
        line = f"{pad}- {flow(value)}"
        if len(line) <= WIDTH and not _has_lines(value) and _depth(value) <= 2:
            return [line]
        first, *rest = block(value, indent + 2)
        return [f"{pad}- {first.lstrip()}", *rest]
    return entry_lines(f"{pad}-", value, indent + 2)


def _depth(value: Any) -> int:
    """The nesting depth of lists and objects; 0 for other values."""
    is_collection = isinstance(value, Mapping | list | tuple)
    return 1 + max(map(_depth, inner_values(value)), default=0) if is_collection else 0


def _has_lines(value: Any) -> bool:
    """Whether `value` contains a string of several lines."""
    return "\n" in value if isinstance(value, str) else any(map(_has_lines, inner_values(value)))


def _literal(text: str, indent: int) -> list[str] | None:
    """`text` in literal style, line by line; None if that would not preserve it."""
    if text.startswith((" ", "\n")) or text.endswith("\n\n") or _UNPRINTABLE.search(text.replace("\n", "")):
        return None
    lines = text.removesuffix("\n").split("\n")
    if any(line != line.rstrip() for line in lines):
        return None
    pad = " " * indent
    return ["|" if text.endswith("\n") else "|-", *(pad + line if line else "" for line in lines)]


def _quoted(text: str) -> str:
    """`text` in double quotes, with unprintable characters escaped; halves of surrogate pairs are lost."""

    def escape(match: re.Match[str]) -> str:
        code = ord(match[0])
        return MISSING_CHARACTER if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"

    return _UNPRINTABLE.sub(escape, json.dumps(text, ensure_ascii=False))


SCHEMA_FILE = "suite.schema.json"
EDITOR_LINE = f"# yaml-language-server: $schema={SCHEMA_FILE} (from `a2a-eval-proxy schema > {SCHEMA_FILE}`)"
"""The first line of a suite file: an editor with a YAML language server then completes and checks the suite."""


def suite_text(
    suite: Suite, comments: Iterable[str] = (), case_comments: Mapping[str, Sequence[str]] | None = None
) -> str:
    """`suite` as YAML, with `EDITOR_LINE` and `comments` at the top and above the cases with these ids.

    Plug-ins are written with their absolute path.
    """
    lines = [EDITOR_LINE, *comment_lines(comments, "")]
    lines += block(suite_dict(replace(suite, cases=())))
    if suite.cases:
        lines += ["", "cases:"]
        for case in suite.cases:
            lines += comment_lines((case_comments or {}).get(case.id, ()), "  ")
            lines += [*block([case_dict(case, suite)], 2), ""]
    return "\n".join(lines).rstrip() + "\n"


def comment_lines(comments: Iterable[str], pad: str) -> list[str]:
    """`comments` as lines of a suite file, indented by `pad`."""
    lines = (line for comment in comments for line in comment.splitlines())
    return [f"{pad}# {_UNPRINTABLE.sub(MISSING_CHARACTER, line)}".rstrip() for line in lines]


def suite_dict(suite: Suite) -> dict[str, Any]:
    """The JSON form of a suite file; default values are omitted."""
    return _dump(Suite, replace(suite, cases=tuple(case.without(suite) for case in suite.cases)))


def kept_suite(suite: Suite) -> dict[str, Any]:
    """The JSON form of a suite for `read_kept_suite`: headers, models, files with code and probes are not in it."""
    none = Suite(name="")
    cases = tuple(case.with_expectations(lambda expect: expect.kept) for case in suite.cases)
    bare = replace(suite, agent=none.agent, simulated_user=none.simulated_user, judge=none.judge, plugins=none.plugins)
    return suite_dict(replace(bare, cases=cases))


def case_dict(case: Case, suite: Suite) -> dict[str, Any]:
    """The JSON form of a case of `suite`."""
    return _dump(Case, case.without(suite))


def _dump(declared: type, value: Any) -> dict[str, Any]:
    written: dict[str, Any] = _plain(adapter(declared).dump_python(value, by_alias=True, exclude_defaults=True))
    return written


def _plain(value: Any) -> Any:
    """JSON data from any mappings and sequences. Half a surrogate pair stays unchanged."""
    return with_inner(value, _plain)
