"""Adds a case to the text of a suite file: comments, order and format of all that is there stay as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from .model import Case, Suite
from .writing import case_dict, comment_lines
from .yaml_document import SuiteError, json_as_yaml, read_document
from .yaml_writer import block, flow

_NO_SUITE = Suite(name="")


def case_text(case: Case, comments: Sequence[str] = (), indent: int = 2) -> str:
    """The case as an item of `cases` in a suite file, below its `comments`."""
    return "\n".join(_lines(case, comments, indent)) + "\n"


def with_case(text: str, case: Case, comments: Sequence[str] = (), filename: str = "suite") -> str:
    """The suite in `text` with one more case, the last one: nothing of `text` is removed or changed.

    Raises SuiteError where it has a case with that id, is not a suite, or has a form to which no case can be added.
    """
    before = read_document(text, filename).value
    if not isinstance(before, dict) or not isinstance(cases := before.get("cases") or [], list):
        raise SuiteError("is not a suite file: it has no list `cases`", filename)
    if any(isinstance(one, dict) and one.get("id") == case.id for one in cases):
        raise SuiteError(f"has a case {case.id!r} already; choose another id", filename)
    wanted = json.dumps({**before, "cases": [*cases, case_dict(case, _NO_SUITE)]})
    for candidate in _candidates(text, case, comments):
        try:
            if json.dumps(read_document(candidate).value) == wanted:
                return candidate
        except SuiteError:
            continue  # the next place
    raise SuiteError("has a form to which no case can be added; copy the case into it by hand", filename)


def _candidates(text: str, case: Case, comments: Sequence[str]) -> Iterator[str]:
    """The text with the case at the places where it may belong, the best first."""
    try:
        parsed = json_as_yaml(text) if text.lstrip().startswith("{") else text
        suite: Any = yaml.compose(parsed, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return
    cases = next((value for key, value in suite.value if key.value == "cases"), None)
    if suite.flow_style and cases is None:
        yield from _in_flow(text, suite, {"cases": [case_dict(case, _NO_SUITE)]})
    elif isinstance(cases, yaml.SequenceNode) and cases.flow_style:
        yield from _in_flow(text, cases, case_dict(case, _NO_SUITE))
    else:
        yield from _in_block(text, suite, cases, case, comments)


def _in_block(text: str, suite: Any, cases: Any, case: Case, comments: Sequence[str]) -> Iterator[str]:
    """Below the last item; below the key, where it has no value; else below the suite, with the key."""
    column = suite.start_mark.column
    if cases is None:
        lines, before = [" " * column + "cases:", *_lines(case, comments, column + 2)], suite
    elif cases.value:
        lines, before = _lines(case, comments, cases.start_mark.column), cases
    else:
        lines, before = _lines(case, comments, column + 2), cases
    line_end = "\r\n" if "\r\n" in text else "\n"
    added = line_end.join(lines) + line_end
    places = (_next_line(text, _end(before)), before.end_mark.index, len(text))
    for blank in [line_end, ""] if _is_spaced(text, cases) else [""]:
        for position in places:
            begun = position > 0 and text[position - 1] not in "\r\n"
            yield _inserted(text, position, (line_end if begun else "") + blank + added)


def _is_spaced(text: str, cases: Any) -> bool:
    """Whether there is an empty line between the last two items."""
    if cases is None or len(cases.value) < 2:
        return False
    between = text[_end(cases.value[-2]) : cases.value[-1].start_mark.index]
    return any(not line.strip() for line in between.splitlines()[1:-1])


def _in_flow(text: str, collection: Any, value: Mapping[str, Any]) -> Iterator[str]:
    """After the last item of a collection in brackets: as JSON, which is also YAML, and as YAML."""
    first, last = collection.start_mark.index + 1, collection.end_mark.index - 1
    places = [(last, "")]
    if collection.value:
        item = collection.value[-1][-1] if isinstance(collection, yaml.MappingNode) else collection.value[-1]
        broken = "\n" in text[first : item.start_mark.index]
        separator = ",\n" + " " * item.start_mark.column if broken else ", "
        places = [(_end(item), separator), (last, separator), (last, "")]
    for position, separator in places:
        for written in (json.dumps(value, ensure_ascii=False), flow(value)):
            item_text = written[1:-1] if isinstance(collection, yaml.MappingNode) else written
            yield _inserted(text, position, separator + item_text)


def _end(node: Any) -> int:
    """Where the last value in a node ends. Of a block collection, `end_mark` is the beginning of what follows."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _next_line(text: str, position: int) -> int:
    """The beginning of the next line; `position` itself where it is the beginning of a line."""
    if position == 0 or text[position - 1] in "\r\n":
        return position
    found = text.find("\n", position)
    return len(text) if found < 0 else found + 1


def _inserted(text: str, position: int, added: str) -> str:
    return text[:position] + added + text[position:]


def _lines(case: Case, comments: Sequence[str], indent: int) -> list[str]:
    return [*comment_lines(comments, " " * indent), *block([case_dict(case, _NO_SUITE)], indent)]
