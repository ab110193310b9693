"""Checks the options of evaluators against their annotations."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

_FEW = 8
"""Maximum number of known names listed after a suggestion."""


IN_FILES = {"arbitrary_types_allowed": True, "extra": "forbid", "use_attribute_docstrings": True}
"""For pydantic, which generates the JSON Schema of the options in suites."""


class OptionError(ValueError):
    """An unknown evaluator, an unknown option, or an invalid value of an option.

    `option` is the name of the option, if the error concerns one; `path` leads to it, as in a FieldError."""

    exit_code = 2
    """Exit code of a command that ends with this error: bad usage or input."""

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option
        self.path = (option,) if option else ()


def check_options(evaluator: Any, owner: str) -> None:
    """Check every field of the dataclass `evaluator` against its annotation.

    As pydantic checks without conversions: an integer is a number, true is none, a text is no list. The message of the
    OptionError begins with `owner`.
    """
    cls: Any = type(evaluator)
    for name, hint in _hints(cls).items():
        value = getattr(evaluator, name)
        try:
            _adapter(hint).validate_python(tuple(value) if isinstance(value, tuple) else value)
        except ValidationError:
            suggestion = did_you_mean(value, _choices(hint)) if isinstance(value, str) else ""
            raise OptionError(
                f"{owner}: option {name} must be {_describe(hint)}; got {value!r}{suggestion}", name
            ) from None


def check_limits(evaluator: Any, names: Iterable[str], owner: str) -> None:
    """Check that a limit is given, of the options with these names, and that each is a number of at least 0."""
    limits = {name: getattr(evaluator, name) for name in names}
    for name, limit in limits.items():
        if limit is not None and not (math.isfinite(limit) and limit >= 0):
            raise OptionError(f"{owner}: option {name} must be at least 0; got {limit!r}", name)
    if all(limit is None for limit in limits.values()):
        raise OptionError(f"{owner}: give a limit: one of {', '.join(limits)}")


def snake_case(word: str) -> str:
    """`matchMode`, `match-mode` and `MATCH_MODE` as `match_mode`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).replace("-", "_").lower()


def canonical_options(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options for the dataclass `cls` under the names of its fields.

    Names, and words that must be one of a list, may be in camel case, upper case or with hyphens. `cls.spellings`, if
    it exists, maps further names to those of fields. Raises OptionError for an unknown name, and for two names of one
    field.
    """
    known = [item.name for item in fields(cls) if item.init]
    spellings = spellings_of(cls)
    meant: dict[str, str] = {}
    for name in given:
        word = name if name in known else snake_case(str(name))
        option = spellings.get(word, word)
        if option not in known:
            raise OptionError(f"unknown option {name!r}{or_known(word, known, spellings)}", name)
        if option in meant:
            one, other = sorted((meant[option], name), key=option.__eq__)
            raise OptionError(f"options {one} and {other} are the same; give one of them", name)
        meant[option] = name
    return {option: _canonical_word(given[name], _hints(cls)[option]) for option, name in meant.items()}


def spellings_of(cls: type) -> Mapping[str, str]:
    """The `spellings` of `cls` and of its bases."""
    return {name: option for base in reversed(cls.__mro__) for name, option in vars(base).get("spellings", {}).items()}


def _canonical_word(value: Any, hint: Any) -> Any:
    """`value`, or the word among the choices of `hint` that it spells in another case."""
    if not isinstance(value, str) or value in (choices := _choices(hint)):
        return value
    return word if (word := snake_case(value)) in choices else value


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`" (did you mean X?)"`; empty if no known name is close."""
    names = {name.lower(): name for name in known}
    close = [names[name] for name in difflib.get_close_matches(word.lower(), names, n=1)]
    return f" (did you mean {close[0]}?)" if close else ""


def or_known(word: str, known: Iterable[str], also: Iterable[str] = ()) -> str:
    """The end of an error about an unknown word: a suggestion, and the known names unless there are many.

    Names in `also` are suggested, but not listed."""
    names = list(known)
    hint = did_you_mean(word, [*names, *also])
    return hint if hint and len(names) > _FEW else f"{hint}; known are {', '.join(names)}"


@lru_cache(maxsize=256)
def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {item.name: hints[item.name] for item in fields(cls)}


@lru_cache(maxsize=256)
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint, config={"arbitrary_types_allowed": True, "strict": True})


def _choices(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [choice for arg in get_args(hint) for choice in _choices(arg)]


def _describe(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(map(str, args))}"
    if origin in (Union, UnionType):
        return " or ".join(_describe(arg) for arg in args)
    if origin is Sequence:
        return f"a list of {_PLURAL.get(args[0], 'values')}"
    if origin in (Mapping, Callable):
        return "a mapping" if origin is Mapping else "a function"
    return _SINGULAR.get(hint) or str(hint.__name__)


_SINGULAR = {bool: "true or false", int: "a whole number", float: "a number", str: "a string", NoneType: "null"}
_PLURAL = {int: "whole numbers", float: "numbers", str: "strings"}
