"""Masks, hashes or drops the matches of rules in texts, JSON values and turns; reads such rules. Removes the content of
turns and results for `--no-content`: names, structure and scores remain. Pure."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from a2a_tool_capture import Finding, ToolCall
from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.json_limits import WALKED, has_too_many_values
from a2a_tool_capture.wire import TASK_STATES

from ..turn import Turn
from .detectors import DETECTORS, SECRET_NAME, Detector, SpanIterator

_LENGTH = re.compile(r"\[not kept: \d+ characters\]")
_NAME = re.compile(r"[A-Za-z_$@][\w$.-]{0,63}", re.ASCII)

_KEPT = ("judge", "unproven")
"""Keys in the details of a result: a judge's usage, and the names of tools of which no call was seen."""


def without_content(turn: Turn) -> Turn:
    """Returns the turn with the names of its calls, the types of their arguments and the lengths of its texts."""
    return replace(
        turn,
        state=state_without_content(turn.state),
        user_text=length_only(turn.user_text),
        response_text=length_only(turn.response_text),
        tool_calls=[_call(call) for call in turn.tool_calls],
        findings=[replace(finding, message=length_only(finding.message)) for finding in turn.findings],
        simulated_user=turn.simulated_user and user_without_content(turn.simulated_user),
        spans=None,
        world=None,
        user_parts=None,
        approvals=turn.approvals
        and [{**call, "arguments": _types(call["arguments"] or {})} for call in turn.approvals],
    )


def user_without_content(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the record of a simulated user (JSON form) with the lengths of its texts."""
    if "replies" not in record:
        return dict(record)
    fault = record["fault"] and {**record["fault"], "message": length_only(record["fault"]["message"])}
    return {**record, "replies": [length_only(text) for text in record["replies"]], "fault": fault, "redacted": True}


def state_without_content(state: str | None) -> str | None:
    """Returns a state that A2A defines. Any other state is text of the agent and is removed."""
    return state if state is None or state in TASK_STATES else "[redacted]"


def lacks_content(user_text: str) -> bool:
    """Whether a turn with this text was stored without content and so cannot be scored."""
    return _LENGTH.fullmatch(user_text) is not None


def result_without_content(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an evaluation result (JSON form) without its reason, and without details except those of `_KEPT`."""
    details = {key: value for key, value in result["details"].items() if key in _KEPT}
    return {**result, "reason": "", "details": details}


_TYPES = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", type(None): "null"}


def _types(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The JSON types of arguments; names that are not names become "key", "key 2"…"""
    types: dict[str, str] = {}
    for key, value in arguments.items():
        name = key if _NAME.fullmatch(key) else free_key("key", types)
        types[name] = _TYPES.get(type(value), "object")
    return types


def free_key(key: str, taken: Mapping[str, Any]) -> str:
    """Returns `key`, or the first of `key 2`, `key 3`... that is not taken."""
    number, free = 1, key
    while free in taken:
        number += 1
        free = f"{key} {number}"
    return free


def _call(call: ToolCall) -> ToolCall:
    return replace(
        call,
        arguments=None if call.arguments is None else _types(call.arguments),
        result=None if call.result is None else length_only(call.result),
        error=None if call.error is None else length_only(call.error),
        default_arguments=(),
    )


def length_only(text: str) -> str:
    """Returns how long the text is, in place of the text."""
    return text if _LENGTH.fullmatch(text) else f"[not kept: {len(text)} characters]"


if TYPE_CHECKING:
    from tool_call_evaluators.model import ExpectedCall


def json_inside(text: str) -> Any:
    """Returns the object, list or string that `text` is the JSON of, or None. Raises ValueError for too many values."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    if has_too_many_values(text):
        raise ValueError("a JSON text has too many values")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


REDACTED = "redacted"  # the kind in the placeholder of a match by name or pattern
_LETTERS = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")
_PLACEHOLDER = re.compile(rf"(\[(?:{'|'.join(DETECTORS)}|{REDACTED})(?::[a-p]{{16}})?\])")


class Action(StrEnum):
    """The replacement of a match.

    `mask`: `[email]`. `hash`: `[email:` and 16 letters, the same for equal values under one key.
    """

    MASK = "mask"
    HASH = "hash"


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """Redacts the matches of `find` in any text, and the whole value of an object member whose name matches `names`.

    `kind` is the word in the placeholder.
    """

    kind: str
    find: Detector
    action: Action = Action.MASK
    names: re.Pattern[str] | None = None


AnyCall = TypeVar("AnyCall", ToolCall, "ExpectedCall")


def detector_rule(name: str, action: Action = Action.MASK) -> RedactionRule:
    """The rule for one of `DETECTORS`."""
    return RedactionRule(name, DETECTORS[name], action, SECRET_NAME if name == "token" else None)


def is_redacted(text: str) -> bool:
    """Whether a text has a placeholder in place of what was in it."""
    return _PLACEHOLDER.search(text) is not None


class Redactor:
    """Applies rules. Idempotent: it never changes its own placeholders.

    `key` is the key of the hashes: equal values have equal hashes under one key.
    """

    def __init__(self, rules: Iterable[RedactionRule], key: bytes, spares: Callable[[Any], bool] | None = None) -> None:
        order = list(DETECTORS)
        self._rules = tuple(rules)
        self._ordered = sorted(
            self._rules,
            key=lambda rule: order.index(rule.kind) if rule.kind in order else -1,  # custom rules first
        )
        self._key = key
        self._spares = spares

    def sparing(self, spares: Callable[[Any], bool]) -> Redactor:
        """Returns a redactor that does not redact values by their member's name if `spares` is true for them."""
        return Redactor(self._rules, self._key, spares)

    @classmethod
    def joined(cls, redactors: Iterable[Redactor]) -> Redactor:
        """Returns a redactor with the rules of all of these."""
        every = list(redactors)
        rules = [*chain.from_iterable(one._rules for one in every)]
        return cls(dict.fromkeys(rules), next((one._key for one in every if one._key), b""))

    @property
    def has_names(self) -> bool:
        """Whether there are rules by name: they find nothing in texts that are no JSON."""
        return any(rule.kind == REDACTED and rule.names is not None for rule in self._rules)

    @property
    def has_rules(self) -> bool:
        """Whether it changes anything: without rules, everything is returned unchanged."""
        return bool(self._rules)

    def turn(self, turn: Turn) -> Turn:
        """Returns the redacted turn. Matches in ids are hashed, never masked, so that ids stay distinct."""
        links = turn.links
        return replace(
            turn,
            run=self.identifier(turn.run),
            conversation_id=self.identifier(turn.conversation_id),
            task_id=self.identifier(turn.task_id),
            state=state_without_content(turn.state),
            user_text=self.text(turn.user_text),
            response_text=self.text(turn.response_text),
            tool_calls=[
                replace(
                    call,
                    id=self.identifier(call.id),
                    default_arguments=tuple(set(call.default_arguments).intersection(call.arguments or ())),
                )
                for call in self.calls(turn.tool_calls)
            ],
            findings=[self.finding(finding) for finding in turn.findings],
            simulated_user=turn.simulated_user and self.simulated_user(turn.simulated_user),
            world=turn.world
            and {after: {key: self.value(it) for key, it in one.items()} for after, one in turn.world.items()},
            user_parts=turn.user_parts and [self._part(part) for part in turn.user_parts],
            approvals=turn.approvals
            and [{**self._call(call), "id": self.identifier(call["id"])} for call in turn.approvals],
            spans=turn.spans and [{**span, "name": self.text(span["name"])} for span in turn.spans],
            links=links and links._replace(names=tuple((kind, self.identifier(name)) for kind, name in links.names)),
        )

    def _part(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the redacted part of a message, without the content of a file: it may hide anything."""
        shown = {key: value for key, value in part.items() if key != "raw"} if self.has_rules else part
        return dict(self._object(shown, WALKED))

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        return {**call, "name": self.text(call["name"]), "arguments": self.value(call["arguments"])}

    def simulated_user(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the redacted record of a simulated user (JSON form); what was replaced cannot be replayed."""
        if "replies" not in record:  # that of a turn which is not the last
            return dict(record)
        said = [self.text(text) for text in record["replies"]]
        fault = record["fault"]
        if fault is not None:
            fault = {**fault, "message": self.text(fault["message"])}
        redacted = record["redacted"] or said != record["replies"]
        return {**record, "replies": said, "fault": fault, "redacted": redacted}

    def calls(self, calls: Sequence[AnyCall]) -> list[AnyCall]:
        """Returns calls, made or expected, redacted as in a turn; ids are unchanged."""
        return [
            replace(
                call,
                name=self.text(call.name),
                arguments=self.value(call.arguments),
                result=self.value(call.result),
                error=self.value(call.error),
            )
            for call in calls
        ]

    def finding(self, finding: Finding) -> Finding:
        return replace(finding, message=self.text(finding.message), where=self.text(finding.where))

    def identifier(self, text: str) -> str:
        """Returns an id with its matches hashed, whatever the rules' actions."""
        return self._in_text(text, WALKED, Action.HASH) if text else text

    def text(self, text: str) -> str:
        """Returns the redacted text; a text that is JSON is redacted as a value."""
        return self._in_text(text, WALKED, None)

    def value(self, value: Any, depth: int = WALKED) -> Any:
        """Returns the redacted JSON value, including keys; the same object without matches. What nests deeper is masked
        without inspection."""
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

    def _object(self, value: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        new: dict[str, Any] = {}
        for key, item in value.items():
            place = free_key(self._in_text(str(key), 0, None), new)  # two keys may have the same placeholder
            new[place] = self._named(key, item, depth)
        unchanged = all(
            new_key == key and new[key] is item for new_key, (key, item) in zip(new, value.items(), strict=True)
        )
        return value if unchanged else new

    def _named(self, key: Any, item: Any, depth: int) -> Any:
        """Returns the redacted member; the whole value if its name is that of a secret."""
        if isinstance(key, str) and not (self._spares is not None and self._spares(item)):
            says_something = item is not None and not isinstance(item, bool) and item not in ("", [], (), {})
            for rule in self._ordered:
                if rule.names is not None and rule.names.search(key) and (says_something or rule.kind == REDACTED):
                    return self._replaced(rule.kind, rule.action, item)
        return self.value(item, depth)

    def _number(self, value: float) -> Any:
        """Redacts long numbers, which may be card numbers; protobuf converts them to floats."""
        if abs(value) < 1e9 or (isinstance(value, float) and not (abs(value) < 1e20 and value.is_integer())):
            return value
        if abs(value) >= 10**40:
            return value
        digits = str(int(value))
        found = self._in_text(digits, 0, None)
        return value if found == digits else found

    def _in_text(self, text: str, depth: int, action: Action | None) -> str:
        if not self._rules:
            return text
        inside = json_inside(text) if depth > 0 and action is None else None
        if inside is not None:
            new = self.value(inside, depth - 1)
            if new is not inside and new != inside:
                return json.dumps(new, ensure_ascii=False)
        for rule in self._ordered:
            if "[" in text:
                parts = _PLACEHOLDER.split(text)
                parts[::2] = [self._applied(rule, action or rule.action, part) for part in parts[::2]]
                text = "".join(parts)
            else:
                text = self._applied(rule, action or rule.action, text)
        return text

    def _applied(self, rule: RedactionRule, action: Action, text: str) -> str:
        pieces, position = [], 0
        for begin, end in rule.find(text):
            pieces += [text[position:begin], self._placed(rule.kind, action, text[begin:end])]
            position = end
        return "".join([*pieces, text[position:]]) if pieces else text

    def _replaced(self, kind: str, action: Action, value: Any) -> Any:
        if value is None or (isinstance(value, str) and _PLACEHOLDER.fullmatch(value)):
            return value
        return self._placed(kind, action, value if isinstance(value, str) else canonical(value))

    def _placed(self, kind: str, action: Action, text: str) -> str:
        if action is Action.MASK:
            return f"[{kind}]"
        digest = hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:16]
        return f"[{kind}:{digest.encode().translate(_LETTERS).decode()}]"


NO_RULES = Redactor((), b"")

_PATTERN_S = 0.5  # time limit of a custom pattern for one text
_FORMS = "{detector: NAME}, {name: NAME} or {pattern: REGEX}, each with an action if it is not mask"


@dataclass(frozen=True, slots=True)
class PatternDetector:
    """Detects the matches of a custom regular expression.

    If the search exceeds half a second, because the pattern backtracks, the whole text counts as a match.
    """

    pattern: str

    def __call__(self, text: str) -> SpanIterator:
        from tool_call_evaluators.matching.patterns import compiled_pattern  # not every command needs it

        try:
            matches = compiled_pattern(self.pattern).finditer(text, timeout=_PATTERN_S, concurrent=True)
            spans = [match.span() for match in matches if match.end() > match.start()]
        except TimeoutError:
            spans = [(0, len(text))]
        return iter(spans)


def parse_rules(value: Any) -> tuple[RedactionRule, ...]:
    """Returns the rules of `NAME[:ACTION],...`, or of a list (or its JSON text) of names and objects.

    Raises ValueError with the accepted values.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ValueError(f"expected a list of rules, which is no JSON: {error}") from None
    if isinstance(value, str):
        value = [item.strip() for item in value.split(",")]
    if not isinstance(value, list) or not value:
        raise ValueError(f"expected names of detectors separated by commas, or a list of {_FORMS}")
    return tuple(map(_rule, value))


def hashes(rules: Iterable[RedactionRule]) -> bool:
    """Whether any of the rules hashes, which needs a key."""
    return any(rule.action is Action.HASH for rule in rules)


def _rule(item: Any) -> RedactionRule:
    if isinstance(item, str):
        name, colon, action = item.partition(":")
        return detector_rule(_detector(name), _action(action) if colon else Action.MASK)
    if not isinstance(item, Mapping) or len({"detector", "name", "pattern"} & item.keys()) != 1:
        raise ValueError(f"expected {_FORMS}, not {item!r}")
    if unknown := [key for key in item if key not in ("detector", "name", "pattern", "action")]:
        raise ValueError(f"a rule has no {unknown[0]!r}; expected {_FORMS}")
    action = _action(item.get("action", Action.MASK))
    if "detector" in item:
        return detector_rule(_detector(item["detector"]), action)
    if "name" in item:
        return name_rule(item["name"], action)
    return RedactionRule(REDACTED, PatternDetector(_pattern(item["pattern"])), action)


def _detector(name: Any) -> str:
    if name not in list(DETECTORS):  # which may be asked for what has no hash
        raise ValueError(f"there is no detector {name!r}; expected one of {', '.join(DETECTORS)}")
    return str(name)


def _action(action: Any) -> Action:
    try:
        return Action(action)
    except ValueError:
        raise ValueError(f"there is no action {action!r}; expected one of {', '.join(Action)}") from None


def name_rule(name: Any, action: Action = Action.MASK) -> RedactionRule:
    """The rule for the members of JSON objects with this name, in letters of any case. Raises ValueError."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name: expected that of a member, got {name!r}")
    return RedactionRule(REDACTED, _finds_nothing, action, re.compile(rf"\A{re.escape(name)}\Z", re.IGNORECASE))


def _finds_nothing(text: str) -> SpanIterator:  # a detector
    return iter(())


def _pattern(pattern: Any) -> str:
    from tool_call_evaluators.matching.patterns import compiled_pattern

    if not isinstance(pattern, str) or not pattern:
        raise ValueError("pattern: expected a regular expression")
    try:
        compiled_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"pattern {error}") from None
    return pattern
