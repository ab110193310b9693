"""Decides whether a call is an expected one: its name, its arguments, and the result and error that are expected.

Values compare as JSON: numbers by value (1 equals 1.0), true is neither 1 nor "true", strings exactly unless
an option changes that, lists by position. Expected values may be placeholders (see `placeholders`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

from a2a_tool_capture.canonical import value_key
from a2a_tool_capture.models import ToolCall

from ..model import ExpectedCall
from ..options import IN_FILES, OptionError, canonical_options, check_options
from ..texts import contrast, excerpt, from_json, in_json, json_excerpt
from .call_failure import why_failed
from .placeholders import (
    ATOMS,
    accepts,
    alternatives,
    equal_values,
    is_number,
    is_optional,
    is_placeholder,
    json_values,
    readable,
    with_inner,
)

MatchMode = Literal["exact", "subset", "superset", "ignore"]
Arguments: TypeAlias = Mapping[str, Any]
Matcher: TypeAlias = Callable[[Arguments, Arguments], bool]
"""(expected, actual) -> bool. An ArgumentMatcher or any function of that form."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference from an expected call. `path` is like `items[0].qty`; empty for the `part` as a whole."""

    path: str
    problem: Literal["missing", "unexpected", "different", "unknown"]
    expected: Any = None
    actual: Any = None
    part: str = "arguments"
    """`arguments`, `result`, `error` or `succeeded`."""

    def __str__(self) -> str:
        where = self.path or "arguments"
        if self.part == "succeeded":
            wanted = "succeed" if self.expected else "fail"
            if self.problem == "unknown":
                return f"whether it succeeded is not known: no result was reported (expected to {wanted})"
            return f"expected to {wanted}, {self.actual or 'it succeeded'}"
        if self.part != "arguments":
            where = f"its {self.part} at {self.path}" if self.path else f"its {self.part}"
        if self.problem == "missing":
            return f"{where} is missing (expected {excerpt(readable(self.expected))})"
        if self.problem == "unexpected":
            return f"{where} was not expected (got {json_excerpt(self.actual)})"
        if self.problem == "unknown" and self.part == "arguments":
            return f"{where} are unknown"
        if self.problem == "unknown":
            return f"{where} is not known: none was reported (expected {excerpt(readable(self.expected))})"
        return f"{where}: {contrast(readable(self.expected), in_json(self.actual))}"

    def concerns(self, name: str) -> bool:
        """Whether it is of the argument `name`, or in it."""
        place = _child("", name)
        return self.part == "arguments" and (
            self.path in ("", place) or self.path.startswith((f"{place}.", f"{place}["))
        )

    def to_dict(self) -> dict[str, Any]:
        out = {"path": self.path, "problem": self.problem, "expected": self.expected, "actual": self.actual}
        return out if self.part == "arguments" else {**out, "part": self.part}


@dataclass(frozen=True)
class ArgumentMatcher:
    """Compares expected with actual arguments.

    `mode`: `exact` the same keys and all values match; `subset` every expected entry is in actual, which may
    have more; `superset` every actual entry is in expected, some of which may be missing; `ignore` not compared.
    The mode applies to the top level; nested objects compare exactly unless `deep`, which applies it at every level
    (lists must still have equal length). `trim` ignores white space around strings, `case_insensitive` their case, and
    `ignored_characters` these characters: in values, never in keys. With `typed_lists`, an integer in a list does not
    equal a float. `per_tool` overrides all options for the tools it names, by a mode, a mapping of
    options, or a function (expected, actual) -> bool.

    Unknown actual arguments (None) match only where arguments are ignored; expected None matches anything, known
    or not. Raises OptionError for invalid options and, when comparing, PlaceholderError for an invalid placeholder.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = IN_FILES
    spellings: ClassVar[Mapping[str, str]] = {"trim_strings": "trim"}

    mode: MatchMode = "exact"
    """`exact`: equal; `subset`: the call may have more; `superset`: the call may have fewer; `ignore`: not compared."""
    _: KW_ONLY
    deep: bool = False
    """True: the mode applies at every level, not only the top one."""
    trim: bool = False
    """True: white space around strings is ignored."""
    case_insensitive: bool = False
    """True: upper and lower case are equal."""
    ignored_characters: str = ""
    """Characters that are left out of strings before they are compared, such as `" ,./-_"`."""
    typed_lists: bool = False
    """True: inside lists, 5 and 5.0 differ, as where a schema has arrays of integers and arrays of numbers."""
    per_tool: Mapping[str, MatcherLike] = field(default_factory=dict)
    """Another mode or other options for the tools of these names."""

    def __post_init__(self) -> None:
        if isinstance(self.per_tool, Mapping):
            tools = {tool: as_matcher(matcher) for tool, matcher in self.per_tool.items()}
            object.__setattr__(self, "per_tool", tools)
        check_options(self, "arguments")

    @classmethod
    def of(cls, mode: str) -> ArgumentMatcher:
        """The matcher of a mode, in any case: `ArgumentMatcher.of("SUBSET")`. Raises OptionError for no mode."""
        return cls(**canonical_options(cls, {"mode": mode}))

    @classmethod
    def tolerant(cls) -> ArgumentMatcher:
        """The default: numbers by value, strings and keys exactly."""
        return cls()

    @property
    def _normalizes(self) -> bool:
        """Whether strings that differ may be equal."""
        return self.trim or self.case_insensitive or bool(self.ignored_characters) or self.typed_lists

    @cached_property
    def _ignored(self) -> dict[int, None]:
        return dict.fromkeys(map(ord, self.ignored_characters))

    def __call__(self, expected: Arguments | None, actual: Arguments | None) -> bool:
        """Whether `actual` is as expected."""
        return next(self._compare_all(expected, actual), None) is None

    def differences(self, expected: Arguments | None, actual: Arguments | None) -> list[Difference]:
        """The innermost differences between `actual` and `expected`; empty only if they match."""
        return list(self._compare_all(expected, actual))

    def accepts(self, expected: Any, actual: Any) -> bool:
        """Whether the value `actual` of an entry is accepted for `expected`."""
        return next(self._compare(expected, actual, "", self.mode if self.deep else "exact"), None) is None

    def value_key(self, value: Any) -> Hashable:
        """A key that two values share only if they are equal with these options (as data, without placeholders)."""
        return value_key(self._normal(value) if self._normalizes else value)

    def _compare_all(self, expected: Arguments | None, actual: Arguments | None) -> Iterator[Difference]:
        if self.mode == "ignore" or expected is None or expected == {"$any": True}:
            return iter(())
        if actual is None:
            return iter([Difference("", "unknown", expected=expected)])
        return self._compare(expected, actual, "", self.mode)

    def _compare(self, expected: Any, actual: Any, path: str, mode: MatchMode) -> Iterator[Difference]:
        if type(expected) is dict or isinstance(expected, Mapping):
            if is_placeholder(expected):
                if "$literal" in expected:
                    matches = self._equal(expected["$literal"], actual)
                elif (values := alternatives(expected)) is not None:
                    given = json_values(actual) if "$json" in expected else [actual]
                    compared = (self._compare(value, one, path, mode) for one in given for value in values)
                    matches = any(next(differences, None) is None for differences in compared)
                else:
                    text = actual.strip() if self.trim and isinstance(actual, str) else actual
                    matches = accepts(expected, text, ignore_case=self.case_insensitive)
                if not matches:
                    yield Difference(path, "different", expected, actual)
                return
            if type(actual) is dict or isinstance(actual, Mapping):
                yield from self._compare_objects(expected, actual, path, mode)
                return
        elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
            yield from self._compare_lists(expected, actual, path, mode)
            return
        if not self._equal(expected, actual):
            yield Difference(path, "different", expected, actual)

    def _compare_objects(
        self, expected: Arguments, actual: Arguments, path: str, mode: MatchMode
    ) -> Iterator[Difference]:
        inner: MatchMode = mode if self.deep else "exact"
        for key, value in expected.items():
            if key in actual:
                if type(value) not in ATOMS or not self._equal(value, actual[key]):
                    yield from self._compare(value, actual[key], _child(path, key), inner)
            elif mode != "superset" and not is_optional(value):
                yield Difference(_child(path, key), "missing", expected=value)
        if mode != "subset":
            for key, value in actual.items():
                if key not in expected:
                    yield Difference(_child(path, key), "unexpected", actual=value)

    def _compare_lists(
        self, expected: Sequence[Any], actual: Sequence[Any], path: str, mode: MatchMode
    ) -> Iterator[Difference]:
        for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
            if self.typed_lists and is_number(left) and is_number(right) and type(left) is not type(right):
                yield Difference(f"{path}[{index}]", "different", left, right)
            elif type(left) not in ATOMS or not self._equal(left, right):
                yield from self._compare(left, right, f"{path}[{index}]", mode)
        for index in range(len(actual), len(expected)):
            yield Difference(f"{path}[{index}]", "missing", expected=expected[index])
        for index in range(len(expected), len(actual)):
            yield Difference(f"{path}[{index}]", "unexpected", actual=actual[index])

    def _equal(self, expected: Any, actual: Any) -> bool:
        if self._normalizes:
            expected, actual = self._normal(expected), self._normal(actual)
        return equal_values(expected, actual)

    def _normal(self, value: Any) -> Any:
        if isinstance(value, str):
            text = value.strip() if self.trim else value
            text = text.translate(self._ignored) if self.ignored_characters else text
            return text.casefold() if self.case_insensitive else text
        if self.typed_lists and isinstance(value, list | tuple):
            return [[type(item).__name__, item] if is_number(item) else self._normal(item) for item in value]
        return with_inner(value, self._normal)


MatcherLike: TypeAlias = ArgumentMatcher | Matcher | MatchMode | Mapping[str, Any]
"""What `as_matcher` accepts: a matcher, a mode, or a mapping of ArgumentMatcher's options."""


MATCHER_SPELLINGS: Mapping[str, str] = {"arguments": "matcher", "argument_matcher": "matcher"}
"""Further names of the option `matcher` of evaluators."""


def as_matcher(value: MatcherLike) -> Matcher:
    """A matcher from a matcher, a mode, or a mapping of options, in any of the spellings of `canonical_options`.

    Raises OptionError for anything else."""
    if isinstance(value, ArgumentMatcher):
        return value
    if isinstance(value, str):
        value = {"mode": value}
    if isinstance(value, Mapping):
        return ArgumentMatcher(**canonical_options(ArgumentMatcher, value))
    if callable(value):
        return value
    raise OptionError(f"must be a mode, a mapping of options or a function; got {value!r}")


def rule_for(matcher: Matcher, tool: str) -> Matcher:
    """The matcher for calls of `tool`."""
    return as_matcher(matcher.per_tool.get(tool, matcher)) if isinstance(matcher, ArgumentMatcher) else matcher


def call_matches(expected: ExpectedCall, actual: ToolCall, matcher: Matcher) -> bool:
    """Whether the names are equal, `matcher` accepts the arguments, and the result and error are as expected."""
    if expected.name != actual.name:
        return False
    rule = rule_for(matcher, expected.name)
    if not arguments_match(expected.arguments, actual.arguments_for(expected.arguments), rule):
        return False
    return not outcome_differences(expected, actual, rule)


def arguments_match(expected: Arguments | None, actual: Arguments | None, rule: Matcher) -> bool:
    """Whether `rule` accepts the arguments; a plain function never gets unknown ones."""
    if isinstance(rule, ArgumentMatcher):
        return rule(expected, actual)
    if expected is None or actual is None:
        return expected is None
    return bool(rule(expected, actual))


def outcome_differences(expected: ExpectedCall, actual: ToolCall, rule: Matcher) -> list[Difference]:
    """The differences of the result and error from the expected ones (`value_differences`). An unknown one is never as
    expected."""
    found = []
    for part, wanted in expected.outcome.items():
        if part == "succeeded":
            failure = why_failed(actual.error, actual.result)
            if actual.result is None and actual.error is None:
                found.append(Difference("", "unknown", wanted, part=part))
            elif wanted == bool(failure):
                found.append(Difference("", "different", wanted, failure, part))
            continue
        text = getattr(actual, part)
        if text is None:
            found.append(Difference("", "unknown", wanted, part=part))
        else:
            given = text if is_text(wanted) else from_json(text)
            found += [replace(difference, part=part) for difference in value_differences(wanted, given, rule)]
    return found


def value_differences(expected: Any, actual: Any, rule: Matcher, path: str = "") -> list[Difference]:
    """The differences of any JSON value, whose place is `path`: by the options of `rule`, but where that ignores
    arguments or is a plain function, the values must be equal."""
    matcher = rule if isinstance(rule, ArgumentMatcher) else ArgumentMatcher()
    return list(matcher._compare(expected, actual, path, "exact" if matcher.mode == "ignore" else matcher.mode))


_OF_TEXTS = ("$regex", "$json", "$sql", "$same")


def is_text(expected: Any) -> bool:
    """Whether a result is compared with `expected` as text, not as the JSON value of the text."""
    if is_placeholder(expected):
        if "$json" not in expected and (values := alternatives(expected)) is not None:
            return all(map(is_text, values))
        return not expected.keys().isdisjoint(_OF_TEXTS) or isinstance(expected.get("$literal"), str)
    return isinstance(expected, str)


def call_differences(expected: ExpectedCall, actual: ToolCall, matcher: Matcher) -> list[Difference]:
    """The differences between two calls of one tool; of arguments that a plain function compares, at most one, of the
    whole."""
    rule, given = rule_for(matcher, expected.name), actual.arguments_for(expected.arguments)
    if isinstance(rule, ArgumentMatcher):
        found = rule.differences(expected.arguments, given)
    elif arguments_match(expected.arguments, given, rule):
        found = []
    else:
        found = [Difference("", "different", expected.arguments, given)]
    return [*found, *outcome_differences(expected, actual, rule)]


def _child(path: str, key: str) -> str:
    if not key.isidentifier():
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key
