"""Changes values in the text of a suite file, or adds a case: comments, anchors, order and format of all else stay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..matching.placeholders import equal_values
from .model import Case, Suite
from .writing import block, case_dict, comment_lines, entry_lines, flow, item_lines
from .yaml_document import Part, Path, SuiteError, is_json, parts_of, read_document


def with_values(text: str, values: Mapping[Path, Any], filename: str = "suite") -> str:
    """The document in `text` with each of `values` at its path, where a key that does not exist is added.

    The text differs only where values do: inside objects, and inside lists whose items stay in their order, equal parts
    stay. Raises SuiteError for a text that is no document (see `read_document`), for a path that leads nowhere, and for
    a form in which a value cannot be changed, such as one that others share by an alias.
    """
    wanted = before = read_document(text, filename).value
    for path, value in values.items():
        wanted = _with_value(wanted, path, value, filename)
    if equal_values(before, wanted):
        return text
    try:
        changed = _Editor(text).edited(wanted)
        if equal_values(read_document(changed).value, wanted):
            return changed
    except ValueError:  # the edits do not know this form
        pass
    raise SuiteError("has a form in which these values cannot be changed; change them by hand", filename)


def _with_value(whole: Any, path: Path, value: Any, filename: str) -> Any:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(whole, Mapping) and isinstance(step, str):
        return {**whole, step: _with_value(whole.get(step, {}), rest, value, filename)}
    if isinstance(whole, list) and isinstance(step, int) and 0 <= step < len(whole):
        return [_with_value(one, rest, value, filename) if i == step else one for i, one in enumerate(whole)]
    raise SuiteError(f"has no {step!r} where one is to be changed", filename)


class _Editor:
    """Collects the edits that give one text the values that are wanted. Its recursion is bounded by MAX_DEPTH."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_json = is_json(text)
        self._edits: list[tuple[int, int, str]] = []
        """The characters from one position to another are replaced by a text."""

    def edited(self, wanted: Any) -> str:
        self._edit(parts_of(self._text), wanted)
        line_end = "\r\n" if "\r\n" in self._text else "\n"
        changed = self._text
        for start, end, written in sorted(self._edits, key=lambda edit: edit[:2])[::-1]:
            changed = changed[:start] + written.replace("\n", line_end) + changed[end:]
        return changed

    def _edit(self, part: Part, wanted: Any) -> None:
        """The edits of a part, whose new parts follow those that stay."""
        old = part.value
        if equal_values(old, wanted):
            return
        if isinstance(old, dict) and isinstance(wanted, Mapping) and part.children and old.keys() <= wanted.keys():
            for child, key in zip(part.children, old, strict=True):
                self._edit(child, wanted[key])
            added = {key: value for key, value in wanted.items() if key not in old}
            if added:
                self._add(part, added)
        elif isinstance(old, list) and isinstance(wanted, list) and part.children and _begins(wanted, old):
            for child, value in zip(part.children, wanted, strict=False):
                self._edit(child, value)
            if len(wanted) > len(old):
                self._add(part, wanted[len(old) :])
        else:
            self._replace(part, wanted)

    def _add(self, part: Part, added: Mapping[str, Any] | Sequence[Any]) -> None:
        """Add entries or items behind the last one."""
        last = part.children[-1]
        if part.in_flow:
            self._edits.append((last.end, last.end, f", {self._written(added)[1:-1]}"))
            return
        head = last.key.start if last.key else self._text.rfind("-", 0, last.start)
        position = self._text.find("\n", last.end) + 1 or len(self._text)
        if self._text[: last.end].endswith("\n"):
            position = last.end
        lines = "".join(f"{line}\n" for line in block(added, self._column(head)))
        self._edits.append((position, position, lines if self._text[:position].endswith("\n") else f"\n{lines}"))

    def _replace(self, part: Part, wanted: Any) -> None:
        start, written = part.start, self._written(wanted)
        if anchor := part.event.anchor if part.target is None else None:
            start = self._text.index(f"&{anchor}", start) + 1 + len(anchor)
            written = f" {written}"
        elif not part.in_flow and part.key is not None:
            start = self._text.index(":", part.key.end) + 1
            gap, column = self._text[start : part.start], self._column(part.key.start)
            if "#" in gap:  # the comment stays where it is
                lines = [gap.rstrip(), *block(wanted, column + 2)]
            else:
                lines = entry_lines(" " * column + "k:", wanted, column + 2)
                lines[0] = lines[0][column + 2 :]
            written = "\n".join(lines)
        elif not part.in_flow and start:
            column = self._column(start)
            written = "\n".join(item_lines(wanted, column - 2))[column:]
        self._edits.append((start, part.end, written))

    def _written(self, value: Any) -> str:
        """`value` on one line."""
        return json.dumps(value, ensure_ascii=False) if self._is_json else flow(value)

    def _column(self, position: int) -> int:
        return position - self._text.rfind("\n", 0, position) - 1


def _begins(new: Sequence[Any], old: Sequence[Any]) -> bool:
    """Whether each old item is still in its place, perhaps with other values: its name is the same."""
    return len(new) >= len(old) and all(_name(one) == _name(other) for one, other in zip(new, old, strict=False))


def _name(value: Any) -> Any:
    return value.get("name", value.get("id")) if isinstance(value, Mapping) else None


_NO_SUITE = Suite(name="")


def case_text(case: Case, comments: Iterable[str] = ()) -> str:
    """The case as an item of `cases` in a suite file, below its `comments`."""
    return "\n".join([*comment_lines(comments, "  "), *block([case_dict(case, _NO_SUITE)], 2)]) + "\n"


def with_case(text: str, case: Case, comments: Iterable[str] = (), filename: str = "suite") -> str:
    """The suite in `text` with one more case, the last one: nothing of `text` is removed or changed.

    Raises SuiteError where it has a case with that id, is not a suite, or has a form to which no case can be added.
    """
    before = read_document(text, filename).value
    if not isinstance(before, dict) or not isinstance(cases := before.get("cases") or [], list):
        raise SuiteError("is not a suite file: it has no list `cases`", filename)
    if any(isinstance(one, dict) and one.get("id") == case.id for one in cases):
        raise SuiteError(f"has a case {case.id!r} already; choose another id", filename)
    after = with_values(text, {("cases",): [*cases, case_dict(case, _NO_SUITE)]}, filename)
    written = parts_of(after).inner("cases")
    if written is None or written.in_flow:
        return after
    start = after.rfind("\n", 0, written.children[-1].start) + 1
    lines = ["", *comment_lines(comments, " " * (written.start - after.rfind("\n", 0, written.start) - 1))]
    line_end = "\r\n" if "\r\n" in text else "\n"
    return after[:start] + "".join(line + line_end for line in lines) + after[start:]
