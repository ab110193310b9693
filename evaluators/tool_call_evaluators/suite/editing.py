"""Changes values in the text of a suite file, or adds a case: comments, anchors, order and format of all else stay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from a2a_tool_capture.canonical import canonical

from ..matching.placeholders import equal_values
from .model import Case, Suite
from .writing import WIDTH, block, case_dict, comment_lines, entry_lines, flow, item_lines, scalar
from .yaml_document import Part, Path, SuiteError, is_json, parts_of, read_document

_Edit = tuple[int, int, str]
"""The characters from one position to another are replaced by a text."""


def with_values(text: str, values: Mapping[Path, Any], filename: str = "suite") -> str:
    """The document in `text` with each of `values` at its path, where a key that does not exist is added.

    The text differs only where values do: inside objects and lists, equal parts stay. A changed value that others share
    by an alias is changed alone. Raises SuiteError for a text that is no document (see `read_document`), for a path
    that leads nowhere, and for a form in which a value cannot be changed.
    """
    wanted = before = read_document(text, filename).value
    for path, value in values.items():
        wanted = _with_value(wanted, path, value, filename)
    if equal_values(before, wanted):
        return text
    for fine in (True, False):
        try:
            changed = _Editor(text, fine=fine).edited(wanted)
            if equal_values(read_document(changed).value, wanted):
                return changed
        except ValueError:
            continue  # a form that the finer edits do not know
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

    def __init__(self, text: str, *, fine: bool) -> None:
        self._text = text
        self._fine = fine
        self._is_json = is_json(text)
        self._line_end = "\r\n" if "\r\n" in text else "\n"
        self._edits: list[_Edit] = []
        self._sites: dict[Part, list[Part]] = {}
        """The aliases of each anchored value, which stay in the document."""
        self._wanted: dict[Part, Any] = {}
        """The values that the parts get."""

    def edited(self, wanted: Any) -> str:
        self._edit(parts_of(self._text), wanted)
        for target, sites in self._sites.items():
            self._resolve(target, sites)
        out, position = [], 0
        for start, end, added in sorted(self._edits, key=lambda edit: edit[:2]):
            if start < position:
                raise SuiteError("edits overlap", "")
            out += [self._text[position:start], added.replace("\n", self._line_end)]
            position = end
        return "".join([*out, self._text[position:]])

    def _edit(self, node: Part, wanted: Any) -> None:
        self._wanted[node] = wanted
        if node.target is not None:
            self._sites.setdefault(node.target, []).append(node)
        elif isinstance(wanted, Mapping) and isinstance(node.value, dict) and node.children:
            self._edit_object(node, wanted)
        elif isinstance(wanted, list) and isinstance(node.value, list) and node.children:
            self._edit_list(node, wanted)
        elif not equal_values(node.value, wanted):
            self._replace(node, wanted)

    def _resolve(self, target: Part, sites: Sequence[Part]) -> None:
        """Write the values of the aliases that are no longer those of `target`."""
        wanted, anchor = self._wanted.get(target), target.event.anchor
        other = [site for site in sites if not equal_values(self._wanted[site], wanted)]
        keeping = [site for site in other if equal_values(self._wanted[site], target.value)]
        moves = bool(keeping) and len(other) == len(sites) and wanted is not None
        if moves:  # nobody shares the changed value: its anchor goes to the first that keeps it
            name = self._text.index(f"&{anchor}", target.start)
            self._edits.append((name - 1, name + 1 + len(anchor), ""))
        for site in other:
            if not moves or site not in keeping[1:]:
                begun = f"&{anchor} " if moves and site in keeping else ""
                self._edits.append((site.start, site.end, begun + self._written(self._wanted[site])))

    def _edit_object(self, node: Part, wanted: Mapping[str, Any]) -> None:
        known = {child.key.value: child for child in node.children if child.key}
        if not self._fine and not equal_values(node.value, wanted) and known.keys() != wanted.keys():
            return self._replace(node, wanted)
        kept = [key in wanted for key in known]
        if not any(kept):
            return self._replace(node, wanted)
        for key, child in known.items():
            if key in wanted:
                self._edit(child, wanted[key])
        self._remove(node, kept)
        added = {key: value for key, value in wanted.items() if key not in known}
        if not added:
            return None
        if node.in_flow:
            written = ", ".join(f"{self._written(key)}: {self._written(value)}" for key, value in added.items())
            return self._edits.append((node.children[-1].end, node.children[-1].end, f", {written}"))
        return self._add_lines(node.children[-1], block(added, self._column(node)))

    def _edit_list(self, node: Part, wanted: Sequence[Any]) -> None:
        if not self._fine and not equal_values(node.value, wanted):
            return self._replace(node, wanted)
        kept = [False] * len(node.value)
        additions: dict[int, list[Any]] = {}
        place = 0
        for i, value in _aligned(node.value, wanted):
            if i is None:
                additions.setdefault(place, []).append(value)
            else:
                self._edit(node.children[i], value)
                kept[i], place = True, i + 1
        if not any(kept):
            return self._replace(node, wanted)
        self._remove(node, kept)
        for place, added in additions.items():
            self._add_items(node, place, added)
        return None

    def _add_items(self, node: Part, place: int, added: Sequence[Any]) -> None:
        """Add items before the child with the index `place`."""
        if node.in_flow:
            written = ", ".join(map(self._written, added))
            position = node.children[place - 1].end if place else node.children[0].start
            return self._edits.append((position, position, f", {written}" if place else f"{written}, "))
        lines = [line for value in added for line in item_lines(value, self._column(node))]
        if place:
            return self._add_lines(node.children[place - 1], lines)
        first = self._line_start(self._head(node, 0))
        return self._edits.append((first, first, "".join(f"{line}\n" for line in lines)))

    def _add_lines(self, after: Part, lines: Iterable[str]) -> None:
        position = self._next_line(after.end)
        begun = "" if self._text[:position].endswith("\n") else "\n"
        self._edits.append((position, position, begun + "".join(f"{line}\n" for line in lines)))

    def _remove(self, node: Part, kept: Sequence[bool]) -> None:
        """Remove the children that are not `kept`; at least one is."""
        for index, stays in enumerate(kept):
            if stays:
                continue
            start, end = self._head(node, index), node.children[index].end
            if any(kept[:index]) and node.in_flow:
                start = node.children[index - 1].end
            elif node.in_flow or self._text[self._line_start(start) : start].strip():
                if index + 1 == len(kept):
                    raise SuiteError("the only entry of its line", "")
                end = self._head(node, index + 1)  # the next one takes its place
            else:
                start, end = self._line_start(start), self._next_line(end)
            self._edits.append((start, end, ""))

    def _head(self, node: Part, index: int) -> int:
        """Where a child begins: its key, or the dash before it."""
        child = node.children[index]
        if child.key is not None or node.in_flow:
            return (child.key or child).start
        return self._text.rfind("-", 0, child.start)

    def _replace(self, node: Part, wanted: Any) -> None:
        start, written = node.start, self._written(wanted, getattr(node.event, "style", None))
        if anchor := node.event.anchor:
            start = self._text.index(f"&{anchor}", start) + 1 + len(anchor)
            written = f" {written}"
        elif not node.in_flow and node.key is not None:
            after = self._text.index(":", node.key.end) + 1
            gap, column = self._text[after:start], node.key.start - self._line_start(node.key.start)
            first, *more = entry_lines(" " * column + "k:", wanted, column + 2)
            if "#" in gap and (more or gap.count("\n") > 1):  # the comments stay where they are
                start, written = after, "\n".join([gap.rstrip(), *block(wanted, column + 2)])
            elif "#" in gap:
                start, written = after, f"{first[column + 2 :]}  {gap.strip()}"
            elif more or "\n" in gap or not _is_text(wanted):
                start, written = after, "\n".join([first[column + 2 :], *more])
        elif not node.in_flow and not _is_text(wanted) and len(written) + start - self._line_start(start) > WIDTH:
            written = "\n".join(block(wanted, start - self._line_start(start))).lstrip()
        self._edits.append((start, node.end, written))

    def _written(self, value: Any, style: str | None = None) -> str:
        """`value` on one line."""
        if self._is_json:
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, str) and style in ("'", '"'):
            plain = "\n" not in value and value.isprintable()
            quoted = f"'{value.replace(chr(39), chr(39) * 2)}'" if style == "'" and plain else ""
            return quoted or (f'"{value}"' if plain and not set('"\\') & set(value) else scalar(f"{value}"))
        return flow(value)

    def _column(self, node: Part) -> int:
        """Of the keys or dashes of a block."""
        first = self._head(node, 0)
        return first - self._line_start(first)

    def _line_start(self, position: int) -> int:
        return self._text.rfind("\n", 0, position) + 1

    def _next_line(self, position: int) -> int:
        """The beginning of the next line; `position` itself where it is the beginning of a line."""
        if position and self._text[position - 1] == "\n":
            return position
        found = self._text.find("\n", position)
        return len(self._text) if found < 0 else found + 1


def _aligned(old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[int | None, Any]]:
    """Each new item with the index of the old one whose place it takes, if any: an equal one, else one of its name."""
    taken = dict(_common(list(map(canonical, old)), list(map(canonical, new))))
    ends = [(-1, -1), *((i, j) for j, i in taken.items()), (len(old), len(new))]
    for (i, j), (i_end, j_end) in pairwise(ends):
        names = [list(map(_name, values)) for values in (old[i + 1 : i_end], new[j + 1 : j_end])]
        taken |= {j + 1 + right: i + 1 + left for right, left in _common(*names)}
    for j, value in enumerate(new):
        yield taken.get(j), value


def _common(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The indices in `new` and in `old` of items that both have in the same order."""
    for run in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        for k in range(run.size):
            yield run.b + k, run.a + k


def _name(value: Any) -> str:
    """What makes two items the same one with other values; all values that are no objects are."""
    return str(value.get("name", value.get("id", ""))) if isinstance(value, Mapping) else ""


def _is_text(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple)


_NO_SUITE = Suite(name="")


def case_text(case: Case, comments: Sequence[str] = ()) -> str:
    """The case as an item of `cases` in a suite file, below its `comments`."""
    return "\n".join([*comment_lines(comments, "  "), *block([case_dict(case, _NO_SUITE)], 2)]) + "\n"


def with_case(text: str, case: Case, comments: Sequence[str] = (), filename: str = "suite") -> str:
    """The suite in `text` with one more case, the last one: nothing of `text` is removed or changed.

    Raises SuiteError where it has a case with that id, is not a suite, or has a form to which no case can be added.
    """
    before = read_document(text, filename).value
    if not isinstance(before, dict) or not isinstance(cases := before.get("cases") or [], list):
        raise SuiteError("is not a suite file: it has no list `cases`", filename)
    if any(isinstance(one, dict) and one.get("id") == case.id for one in cases):
        raise SuiteError(f"has a case {case.id!r} already; choose another id", filename)
    after = with_values(text, {("cases",): [*cases, case_dict(case, _NO_SUITE)]}, filename)
    return _with_lines_above(after, comments)


def _with_lines_above(text: str, comments: Sequence[str]) -> str:
    """The comments above the last case, and an empty line above them if there is one above the case before; where each
    case has lines of its own."""
    cases = next((child for child in parts_of(text).children if child.key and child.key.value == "cases"), None)
    if cases is None or cases.in_flow:
        return text
    *_, start = starts = [child.start for child in cases.children]
    start = text.rfind("\n", 0, start) + 1
    between = text[starts[-3] : starts[-2]] if len(starts) > 2 else ""
    line_end = "\r\n" if "\r\n" in text else "\n"
    blank = [""] if any(not line.strip() for line in between.splitlines()[1:-1]) else []
    lines = [*blank, *comment_lines(comments, " " * (cases.start - text.rfind("\n", 0, cases.start) - 1))]
    return text[:start] + "".join(line + line_end for line in lines) + text[start:]
