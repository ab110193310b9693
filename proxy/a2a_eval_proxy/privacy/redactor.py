"""Redaction: what the rules find in a text, a JSON value or a turn is masked, hashed or dropped. Pure."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any

from a2a_tool_capture import Finding, ToolCall
from a2a_tool_capture.canonical import canonical

from ..turn import Turn
from .content_removal import state_without_content
from .detectors import DETECTORS, SECRET_NAME, Detector
from .json_paths import DROPPED, Path, edited, json_inside

MAX_DEPTH = 200
"""What nests deeper is masked unread."""

REDACTED = "redacted"
"""The word for what no detector of ours found."""

_LETTERS = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")
_PLACEHOLDER = re.compile(rf"(\[(?:{'|'.join(DETECTORS)}|{REDACTED})(?::[a-p]{{16}})?\])")


class Action(StrEnum):
    """What becomes of what is found.

    `mask`: `[email]`. `hash`: `[email:` and 16 letters, the same for equal values under one key. `drop`: nothing.
    """

    MASK = "mask"
    HASH = "hash"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class TextRule:
    """What `find` finds in any text. `kind` is the word that stands in its place.

    `names`: the value of a member with such a name is found whole, whatever it is.
    """

    kind: str
    find: Detector
    action: Action = Action.MASK
    names: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class PathRule:
    """What `path` leads to in a turn's JSON: in user_text, response_text, tool_calls."""

    path: Path
    action: Action = Action.MASK


Rule = TextRule | PathRule


def detector_rule(name: str, action: Action = Action.MASK) -> TextRule:
    """The rule for one of `DETECTORS`."""
    return TextRule(name, DETECTORS[name], action, SECRET_NAME if name == "token" else None)


class Redactor:
    """Applies rules, those by path first. What it has put in place of something it leaves alone: twice is as once.

    `key` is that of the hashes; the same key gives the same hash for the same value, anywhere.
    """

    def __init__(self, rules: Iterable[Rule], key: bytes, spares: Callable[[Any], bool] | None = None) -> None:
        order = list(DETECTORS)
        rules = list(rules)
        self._paths = [rule for rule in rules if isinstance(rule, PathRule)]
        self._texts = sorted(
            (rule for rule in rules if isinstance(rule, TextRule)),
            key=lambda rule: order.index(rule.kind) if rule.kind in order else -1,  # the operator's own come first
        )
        self._key = key
        self._spares = spares

    def sparing(self, spares: Callable[[Any], bool]) -> Redactor:
        """One that does not take a value which `spares` is true of for a secret, whatever its member is called."""
        return Redactor([*self._paths, *self._texts], self._key, spares)

    @property
    def has_paths(self) -> bool:
        """Whether there are rules that only see turns: in other texts they find nothing."""
        return bool(self._paths)

    def turn(self, turn: Turn) -> Turn:
        """A turn as it may be seen. Ids that the two sides chose are hashed, never masked: they keep turns apart."""
        said = self._without_paths(turn.user_text, turn.response_text, turn.tool_calls)
        return replace(
            turn,
            run=self.identifier(turn.run),
            conversation_id=self.identifier(turn.conversation_id),
            task_id=self.identifier(turn.task_id),
            state=state_without_content(turn.state),
            user_text=self._optional(said.get("user_text")) or "",
            response_text=self._optional(said.get("response_text")) or "",
            tool_calls=self._calls(turn.tool_calls, said),
            findings=[self.finding(finding) for finding in turn.findings],
        )

    def calls(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Calls as in a turn that made these."""
        return self._calls(calls, self._without_paths("", "", calls))

    def finding(self, finding: Finding) -> Finding:
        return replace(finding, message=self.text(finding.message), where=self.text(finding.where))

    def identifier(self, text: str) -> str:
        """An id: what is found in it is hashed, whatever the rules would do."""
        return self._in_text(text, MAX_DEPTH, Action.HASH) if text else text

    def text(self, text: str) -> str:
        """Any text, in which JSON may stand."""
        return self._in_text(text, MAX_DEPTH, None)

    def value(self, value: Any, depth: int = MAX_DEPTH) -> Any:
        """A JSON value, keys of objects included; the same object where nothing is found."""
        if isinstance(value, str):
            return self._in_text(value, depth, None)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._number(value)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if depth == 0:
            return f"[{REDACTED}]"
        if isinstance(value, Mapping):
            return self._object(value, depth - 1)
        items = [self.value(item, depth - 1) for item in value]
        return value if all(new is item for new, item in zip(items, value, strict=True)) else items

    def _without_paths(self, user_text: str, response_text: str, calls: Sequence[ToolCall]) -> Mapping[str, Any]:
        """What a turn says, after the rules by path."""
        said: Any = {
            "user_text": user_text,
            "response_text": response_text,
            "tool_calls": [{"arguments": call.arguments, "result": call.result, "error": call.error} for call in calls],
        }
        for rule in self._paths:
            said = edited(said, rule.path, partial(self._replaced, REDACTED, rule.action))
        return said if isinstance(said, Mapping) else {}

    def _calls(self, calls: Sequence[ToolCall], said: Mapping[str, Any]) -> list[ToolCall]:
        left = said.get("tool_calls")
        if not isinstance(left, list) or len(left) != len(calls):  # a path led to calls as a whole
            left = [None] * len(calls)
        return [
            self._call(call, kept if isinstance(kept, Mapping) else {}) for call, kept in zip(calls, left, strict=True)
        ]

    def _call(self, call: ToolCall, left: Mapping[str, Any]) -> ToolCall:
        """`call`, of which the rules by path left this."""
        arguments = left.get("arguments")
        return replace(
            call,
            id=self.identifier(call.id),
            name=self.text(call.name),
            arguments=self.value(arguments) if isinstance(arguments, Mapping) else None,
            result=self._optional(left.get("result")),
            error=self._optional(left.get("error")),
        )

    def _optional(self, text: Any) -> str | None:
        return self.text(text) if isinstance(text, str) else None

    def _object(self, value: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        new: dict[str, Any] = {}
        for key, item in value.items():
            known = self._in_text(str(key), 0, None)
            number, place = 1, known
            while place in new:  # two keys of one kind
                number += 1
                place = f"{known} {number}"
            kept = self._named(key, item, depth)
            if kept is not DROPPED:
                new[place] = kept
        unchanged = len(new) == len(value) and all(
            new_key == key and new[key] is item for new_key, (key, item) in zip(new, value.items(), strict=True)
        )
        return value if unchanged else new

    def _named(self, key: Any, item: Any, depth: int) -> Any:
        """The member `item`; as a whole where its name says that it is a secret."""
        if isinstance(key, str) and item is not None and not isinstance(item, bool) and item not in ("", [], (), {}):
            if self._spares is not None and self._spares(item):
                return self.value(item, depth)
            for rule in self._texts:
                if rule.names is not None and rule.names.search(key):
                    return self._replaced(rule.kind, rule.action, item)
        return self.value(item, depth)

    def _number(self, value: float) -> Any:
        """Long numbers may be card numbers; protobuf makes floats of them."""
        if abs(value) < 1e9 or (isinstance(value, float) and not (abs(value) < 1e20 and value.is_integer())):
            return value
        if abs(value) >= 10**40:
            return value
        digits = str(int(value))
        found = self._in_text(digits, 0, None)
        return value if found == digits else found

    def _in_text(self, text: str, depth: int, action: Action | None) -> str:
        inside = json_inside(text) if depth > 0 and action is None else None
        if inside is not None:
            new = self.value(inside, depth - 1)
            if new is not inside and new != inside:
                return json.dumps(new, ensure_ascii=False)
        for rule in self._texts:
            if "[" in text:
                parts = _PLACEHOLDER.split(text)
                parts[::2] = [self._applied(rule, action or rule.action, part) for part in parts[::2]]
                text = "".join(parts)
            else:
                text = self._applied(rule, action or rule.action, text)
        return text

    def _applied(self, rule: TextRule, action: Action, text: str) -> str:
        pieces, position = [], 0
        for begin, end in rule.find(text):
            pieces += [text[position:begin], self._placed(rule.kind, action, text[begin:end])]
            position = end
        return "".join([*pieces, text[position:]]) if pieces else text

    def _replaced(self, kind: str, action: Action, value: Any) -> Any:
        """What stands in the place of a whole value."""
        if action is Action.DROP:
            return DROPPED
        if value is None or (isinstance(value, str) and _PLACEHOLDER.fullmatch(value)):
            return value
        return self._placed(kind, action, value if isinstance(value, str) else canonical(value))

    def _placed(self, kind: str, action: Action, text: str) -> str:
        if action is Action.DROP:
            return ""
        if action is Action.MASK:
            return f"[{kind}]"
        digest = hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:16]
        return f"[{kind}:{digest.encode().translate(_LETTERS).decode()}]"
