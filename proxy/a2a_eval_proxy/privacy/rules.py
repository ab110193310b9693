"""Parses redaction rules: `email,card:hash`, or a list of objects in the config file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .detectors import DETECTORS, SpanIterator
from .json_paths import parse_path
from .redactor import REDACTED, Action, PathRule, Rule, TextRule, detector_rule

_PATTERN_S = 0.5
"""Time limit of a custom pattern for one text."""

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
