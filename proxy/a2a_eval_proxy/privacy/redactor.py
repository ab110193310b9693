"""Masks, hashes or drops the matches of rules in texts, JSON values and turns; reads such rules. Pure.

Paths into JSON are a part of RFC 9535: `$.a.b`, `['a']`, `[0]`, `[*]`, `.*`, `..a`. Keys compare without case.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from a2a_tool_capture import Finding, ToolCall
from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.json_limits import WALKED, has_too_many_values

from ..turn import Turn, TurnLinks
from .content_removal import free_key, state_without_content
from .detectors import DETECTORS, SECRET_NAME, Detector, SpanIterator

if TYPE_CHECKING:
    from tool_call_evaluators.model import ExpectedCall

_STEP = re.compile(r"(\.\.|\.)?(?:\[(?:'([^']+)'|\"([^\"]+)\"|(\d+)|(\*))\]|(\*)|([\w-]+))")

DROPPED = object()  # returned by an edit to remove a value


@dataclass(frozen=True, slots=True)
class Step:
    """One step: to the member `name` (in lower case), to the item `index`, or to all. `deep`: at any depth."""

    name: str | None = None
    index: int | None = None
    deep: bool = False

    def leads_to(self, key: str | int) -> bool:
        if isinstance(key, int):
            return self.name is None and self.index in (None, key)
        return self.index is None and self.name in (None, key.casefold())


Path = tuple[Step, ...]


def parse_path(text: str) -> Path:
    """Parse a path. Raises ValueError with the position of an error."""
    if not text.startswith("$"):
        raise ValueError("a path begins with $")
    steps, position = [], 1
    while position < len(text):
        match = _STEP.match(text, position)
        dots, single, double, index, _every, star, word = match.groups() if match else (None,) * 7
        named = word or star
        if match is None or (named and not dots) or (dots == "." and not named):
            raise ValueError(
                f"not understood from {text[position:][:40]!r} on; known are .name ['name'] [0] [*] .* ..name"
            )
        name = single or double or word
        steps.append(Step(name and name.casefold(), None if index is None else int(index), dots == ".."))
        position = match.end()
    if not steps:
        raise ValueError("it leads to everything; name a field")
    return tuple(steps)


def edited(value: Any, path: Path, edit: Callable[[Any], Any], depth: int = WALKED) -> Any:
    """`value` with `edit` done to all that `path` leads to; the same object where it leads to nothing.

    What `edit` turns into `DROPPED` goes. A text that holds JSON is entered, too.
    """
    if not path:
        return edit(value)
    if depth == 0:
        return value
    if isinstance(value, str):
        inside = json_inside(value)
        new = edited(inside, path, edit, depth - 1) if isinstance(inside, dict | list) else inside
        return value if new is inside else json.dumps(new, ensure_ascii=False)
    if not isinstance(value, dict | list | tuple):
        return value
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    members = [(key, item, _member(key, item, path, edit, depth)) for key, item in pairs]
    if all(new is item for _, item, new in members):
        return value
    kept = {key: new for key, _, new in members if new is not DROPPED}
    return kept if isinstance(value, dict) else list(kept.values())


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


def _member(key: Any, item: Any, path: Path, edit: Callable[[Any], Any], depth: int) -> Any:
    step = path[0]
    new = item
    if step.leads_to(key if isinstance(key, int) else str(key)):
        new = edited(item, path[1:], edit, depth - 1)
    if step.deep and new is not DROPPED:
        new = edited(new, path, edit, depth - 1)
    return new


REDACTED = "redacted"  # the kind in the placeholder of a match by path
_LETTERS = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")
_PLACEHOLDER = re.compile(rf"(\[(?:{'|'.join(DETECTORS)}|{REDACTED})(?::[a-p]{{16}})?\])")


class Action(StrEnum):
    """The replacement of a match.

    `mask`: `[email]`. `hash`: `[email:` and 16 letters, the same for equal values under one key. `drop`: removed.
    """

    MASK = "mask"
    HASH = "hash"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class TextRule:
    """Redacts the matches of `find` in any text. `kind` is the word in the placeholder.

    Also redacts the whole value of an object member whose name matches `names`.
    """

    kind: str
    find: Detector
    action: Action = Action.MASK
    names: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class PathRule:
    """Redacts the values at `path` in a turn's JSON: in user_text, response_text, tool_calls."""

    path: Path
    action: Action = Action.MASK


Rule = TextRule | PathRule
AnyCall = TypeVar("AnyCall", ToolCall, "ExpectedCall")


def detector_rule(name: str, action: Action = Action.MASK) -> TextRule:
    """The rule for one of `DETECTORS`."""
    return TextRule(name, DETECTORS[name], action, SECRET_NAME if name == "token" else None)


class Redactor:
    """Applies rules, path rules first. Idempotent: it never changes its own placeholders.

    `key` is the key of the hashes: equal values have equal hashes under one key.
    """

    def __init__(self, rules: Iterable[Rule], key: bytes, spares: Callable[[Any], bool] | None = None) -> None:
        order = list(DETECTORS)
        self._rules = tuple(rules)
        self._paths = [rule for rule in self._rules if isinstance(rule, PathRule)]
        self._texts = sorted(
            (rule for rule in self._rules if isinstance(rule, TextRule)),
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
    def has_paths(self) -> bool:
        """Whether there are path rules: they apply to turns only, not to other texts."""
        return bool(self._paths)

    @property
    def has_rules(self) -> bool:
        """Whether it changes anything: without rules, everything is returned unchanged."""
        return bool(self._paths or self._texts)

    def turn(self, turn: Turn) -> Turn:
        """Returns the redacted turn. Matches in ids are hashed, never masked, so that ids stay distinct."""
        content = self._without_paths(turn.user_text, turn.response_text, turn.tool_calls)
        return replace(
            turn,
            run=self.identifier(turn.run),
            conversation_id=self.identifier(turn.conversation_id),
            task_id=self.identifier(turn.task_id),
            state=state_without_content(turn.state),
            user_text=self._optional(content.get("user_text")) or "",
            response_text=self._optional(content.get("response_text")) or "",
            tool_calls=[
                replace(
                    call,
                    id=self.identifier(call.id),
                    default_arguments=tuple(set(call.default_arguments).intersection(call.arguments or ())),
                )
                for call in self._calls(turn.tool_calls, content)
            ],
            findings=[self.finding(finding) for finding in turn.findings],
            simulated_user=turn.simulated_user and self.simulated_user(turn.simulated_user),
            spans=self._spans(turn.spans),
            links=turn.links and self._links(turn.links),
        )

    def _links(self, links: TurnLinks) -> TurnLinks:
        return links._replace(names=tuple((kind, self.identifier(named)) for kind, named in links.names))

    def _spans(self, spans: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        """None with rules by path, which say nothing of names of spans."""
        if spans is None or self.has_paths:
            return None
        return [{**span, "name": self.text(span["name"])} for span in spans]

    def simulated_user(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the redacted record of a simulated user (JSON form); what was replaced cannot be replayed."""
        if "replies" not in record:  # that of a turn which is not the last
            return dict(record)
        said = [self._optional(self._without_paths(text, "", ()).get("user_text")) or "" for text in record["replies"]]
        fault = record["fault"]
        if fault is not None:
            quotes = f"[{REDACTED}]" if self.has_paths else self.text(fault["message"])
            fault = {**fault, "message": quotes}
        redacted = record["redacted"] or said != record["replies"]
        return {**record, "replies": said, "fault": fault, "redacted": redacted}

    def calls(self, calls: Sequence[AnyCall]) -> list[AnyCall]:
        """Returns calls, made or expected, redacted as in a turn; ids are unchanged."""
        return self._calls(calls, self._without_paths("", "", calls))

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

    def _without_paths(self, user_text: str, response_text: str, calls: Sequence[AnyCall]) -> Mapping[str, Any]:
        """Returns the content of a turn after the path rules."""
        content: Any = {
            "user_text": user_text,
            "response_text": response_text,
            "tool_calls": [{"arguments": call.arguments, "result": call.result, "error": call.error} for call in calls],
        }
        for rule in self._paths:
            content = edited(content, rule.path, partial(self._replaced, REDACTED, rule.action))
        return content if isinstance(content, Mapping) else {}

    def _calls(self, calls: Sequence[AnyCall], content: Mapping[str, Any]) -> list[AnyCall]:
        left = content.get("tool_calls")
        if not isinstance(left, list) or len(left) != len(calls):  # a path matched whole calls
            left = [None] * len(calls)
        return [
            self._call(call, kept if isinstance(kept, Mapping) else {}) for call, kept in zip(calls, left, strict=True)
        ]

    def _call(self, call: AnyCall, left: Mapping[str, Any]) -> AnyCall:
        arguments = left.get("arguments")
        return replace(
            call,
            name=self.text(call.name),
            arguments=self.value(arguments) if isinstance(arguments, Mapping) else None,
            result=self.value(left.get("result")),
            error=self.value(left.get("error")),
        )

    def _optional(self, text: Any) -> str | None:
        return self.text(text) if isinstance(text, str) else None

    def _object(self, value: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        new: dict[str, Any] = {}
        for key, item in value.items():
            place = free_key(self._in_text(str(key), 0, None), new)  # two keys may have the same placeholder
            kept = self._named(key, item, depth)
            if kept is not DROPPED:
                new[place] = kept
        unchanged = len(new) == len(value) and all(
            new_key == key and new[key] is item for new_key, (key, item) in zip(new, value.items(), strict=True)
        )
        return value if unchanged else new

    def _named(self, key: Any, item: Any, depth: int) -> Any:
        """Returns the redacted member; the whole value if its name is that of a secret."""
        if isinstance(key, str) and item is not None and not isinstance(item, bool) and item not in ("", [], (), {}):
            if self._spares is not None and self._spares(item):
                return self.value(item, depth)
            for rule in self._texts:
                if rule.names is not None and rule.names.search(key):
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
        if not self._texts:
            return text
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


NO_RULES = Redactor((), b"")

_PATTERN_S = 0.5  # time limit of a custom pattern for one text
_ROOTS = ("user_text", "response_text", "tool_calls")
_FORMS = "{detector: NAME}, {path: PATH} or {pattern: REGEX}, each with an action if it is not mask"


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


def parse_rules(value: Any) -> tuple[Rule, ...]:
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


def hashes(rules: Iterable[Rule]) -> bool:
    """Whether any of the rules hashes, which needs a key."""
    return any(rule.action is Action.HASH for rule in rules)


def _rule(item: Any) -> Rule:
    if isinstance(item, str):
        name, colon, action = item.partition(":")
        return detector_rule(_detector(name), _action(action) if colon else Action.MASK)
    if not isinstance(item, Mapping) or len({"detector", "path", "pattern"} & item.keys()) != 1:
        raise ValueError(f"expected {_FORMS}, not {item!r}")
    if unknown := [key for key in item if key not in ("detector", "path", "pattern", "action")]:
        raise ValueError(f"a rule has no {unknown[0]!r}; expected {_FORMS}")
    action = _action(item.get("action", Action.MASK))
    if "detector" in item:
        return detector_rule(_detector(item["detector"]), action)
    if "path" in item:
        return _path_rule(item["path"], action)
    return TextRule(REDACTED, PatternDetector(_pattern(item["pattern"])), action)


def _detector(name: Any) -> str:
    if name not in list(DETECTORS):  # which may be asked for what has no hash
        raise ValueError(f"there is no detector {name!r}; expected one of {', '.join(DETECTORS)}")
    return str(name)


def _action(action: Any) -> Action:
    try:
        return Action(action)
    except ValueError:
        raise ValueError(f"there is no action {action!r}; expected one of {', '.join(Action)}") from None


def _path_rule(text: Any, action: Action) -> PathRule:
    try:
        path = parse_path(text) if isinstance(text, str) else ()
    except ValueError as error:
        raise ValueError(f"path {text!r}: {error}") from None
    if not path or (not path[0].deep and path[0].name not in _ROOTS):
        begins = ", ".join(f"$.{root}" for root in _ROOTS)
        raise ValueError(f"path {text!r}: expected one that begins with {begins} or $..")
    return PathRule(path, action)


def _pattern(pattern: Any) -> str:
    from tool_call_evaluators.matching.patterns import compiled_pattern

    if not isinstance(pattern, str) or not pattern:
        raise ValueError("pattern: expected a regular expression")
    try:
        compiled_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"pattern {error}") from None
    return pattern
