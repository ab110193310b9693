"""Declares the values of a suite file once: how each is read, what its JSON Schema is and how it is written.

Dataclasses that derive from `SuiteFields` name the types of their fields from here. `TypeAdapter` of pydantic reads,
writes and describes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from .options import did_you_mean

T = TypeVar("T")
Schema = dict[str, Any]


class FieldError(ValueError):
    """An invalid value. `path` leads from the value to its invalid part."""

    def __init__(self, problem: str, *path: str | int) -> None:
        super().__init__(problem)
        self.path = path


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Annotates a field: `read` converts a value of a document to that of the field.

    `read` raises ValueError for an invalid value; with `in_context` it also gets the context of the reader. `schema` is
    the JSON Schema of the document's value; `write` is the inverse of `read`.
    """

    read: Callable[..., Any]
    schema: Mapping[str, Any] = field(default_factory=dict)
    write: Callable[[Any], Any] | None = None
    in_context: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        writer = core_schema.plain_serializer_function_ser_schema(self.write) if self.write else None
        if self.in_context:
            return core_schema.with_info_plain_validator_function(
                lambda value, info: self.read(value, info.context), serialization=writer
            )
        return core_schema.no_info_plain_validator_function(self.read, serialization=writer)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return dict(self.schema)


def check(function: Callable[[Any], None]) -> AfterValidator:
    """Annotates a field: `function` checks its value after reading, and raises FieldError."""

    def checked(value: T) -> T:
        function(value)
        return value

    return AfterValidator(checked)


class SuiteFields:
    """Base of dataclasses that are read from the keys of an object in a document.

    A key has the name of its field, or that in the field's metadata under `key`. A field whose type allows None is
    optional, but does not accept null. The docstring below a field is its description in the schema.
    """

    __slots__ = ()
    short: ClassVar[str] = ""
    """The key whose value, if it is no object, may stand for the whole one, if there are no others."""
    __pydantic_config__: ClassVar[Any] = {"use_attribute_docstrings": True, "extra": "forbid"}

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The keys that a document may use."""
        return tuple(key for _, key in cls._fields() if key)

    @classmethod
    def _fields(cls) -> list[tuple[Field[Any], str]]:
        """Each field and its key; "" for a field without a key."""
        own = fields(cls)  # type: ignore[arg-type]  # each subclass is a dataclass
        return [(item, item.metadata.get("key", item.name)) for item in own]

    @classmethod
    def long_form(cls, value: Any) -> Any:
        """The full object for a document's value, which may be a shorter form."""
        return cls.entries({cls.short: value} if cls.short and not isinstance(value, dict) else value)

    @classmethod
    def short_form(cls, entries: dict[str, Any]) -> Any:
        """Inverse of `long_form`."""
        alone = entries.keys() == {cls.short} and not isinstance(entries[cls.short], dict)
        return entries[cls.short] if alone else entries

    @classmethod
    def schema(cls, declared: Schema) -> Schema:
        """The JSON Schema of all forms, given that of an object with the `declared` keys."""
        if not cls.short:
            return declared
        alone = {key: value for key, value in declared["properties"][cls.short].items() if key != "description"}
        return {"anyOf": [alone, declared]}

    @classmethod
    def entries(cls, value: Any) -> dict[str, Any]:
        """`value`, an object of declared keys that includes all without a default. Raises FieldError."""
        needed = [key for item, key in cls._fields() if item.default is MISSING and item.default_factory is MISSING]
        return checked_object(value, cls.keys(), filter(None, needed))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        whole = handler(source)
        own: Any = handler.resolve_ref_schema(whole)
        arguments = own["schema"]
        if arguments["type"] == "dataclass-args":  # else another use of the class has changed it
            keys = {item.name: key for item, key in cls._fields()}
            for part in arguments["fields"]:
                if keys[part["name"]]:
                    part["validation_alias"] = part["serialization_alias"] = keys[part["name"]]
                inner = part["schema"]
                if inner["type"] == "default" and inner["schema"]["type"] == "nullable":
                    inner["schema"] = inner["schema"]["schema"]
                while inner["type"] in ("default", "function-after"):
                    inner = inner["schema"]
                if inner["type"] == "tuple":
                    inner["fail_fast"] = True  # only one error is reported, and a hostile document may have many
            own["schema"] = core_schema.no_info_before_validator_function(cls.long_form, arguments)
            own["serialization"] = core_schema.wrap_serializer_function_ser_schema(
                lambda value, write: cls.short_form(write(value))
            )
        return whole

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return cls.schema(handler(core))


def place(path: Iterable[str | int]) -> str:
    """`.cases[0].id`"""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def kind(value: Any) -> str:
    """A description of `value` for error messages."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def checked_object(value: Any, known: Iterable[str] | None = None, required: Iterable[str] = ()) -> dict[str, Any]:
    """`value`, an object with all `required` keys and only `known` ones. Raises FieldError."""
    if not isinstance(value, dict):
        raise FieldError(f"expected an object, got {kind(value)}")
    if known is not None:
        known = tuple(known)
        for key in value:
            if key not in known:
                raise FieldError(f"unknown key{did_you_mean(key, known)}; accepted are {', '.join(known)}", key)
    for key in required:
        if key not in value:
            raise FieldError(f"{key} is missing")
    return value


def checked_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise FieldError(f"expected a list, got {kind(value)}")
    return value


def text(value: Any) -> str:
    """A string that is not blank."""
    if not isinstance(value, str):
        hint = "; put it in quotes" if isinstance(value, bool | int | float) else ""
        raise FieldError(f"expected a string, got {kind(value)}{hint}")
    if not value.strip():
        raise FieldError("must not be blank")
    return value


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise FieldError(f"expected true or false, got {kind(value)}")
    return value


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(f"expected a number, got {kind(value)}")
    return value


def share(value: Any) -> float:
    if not 0 <= number(value) <= 1:
        raise FieldError(f"expected a number from 0 to 1, got {kind(value)}")
    return number(value)


def choice(value: Any, accepted: Iterable[str]) -> str:
    word, known = text(value), tuple(accepted)
    if word not in known:
        raise FieldError(f"unknown {word!r}{did_you_mean(word, known)}; accepted are {', '.join(known)}")
    return word


def at(step: str | int, read: Callable[[Any], T], value: Any) -> T:
    """`read(value)`, with `step` added to the path of an error."""
    try:
        return read(value)
    except ValueError as error:
        raise FieldError(str(error), step, *getattr(error, "path", ())) from None


def each(read: Callable[[Any], T], value: Any) -> tuple[T, ...]:
    return tuple(at(index, read, item) for index, item in enumerate(checked_list(value)))


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `json.loads`: an object. Raises ValueError for a repeated key, which makes its meaning ambiguous."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is repeated")
    return value


TEXT: Schema = {"type": "string", "pattern": r"\S"}
TEXTS: Schema = {"type": "array", "items": TEXT}

Text = Annotated[str, Value(text, TEXT)]
Texts = tuple[Text, ...]
Boolean = Annotated[bool, Value(boolean, {"type": "boolean"})]
Number = Annotated[float, Value(number, {"type": "number"})]
Share = Annotated[float, Value(share, {"type": "number", "minimum": 0, "maximum": 1})]


def whole_number(least: int, most: int) -> Value:

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise FieldError(f"expected a whole number from {least:,} to {most:,}, got {kind(value)}")
        return value

    return Value(read, {"type": "integer", "minimum": least, "maximum": most})


def texts(value: Any) -> tuple[str, ...]:
    return each(text, value)


def text_or_texts(value: Any) -> tuple[str, ...]:
    """One string, or a list of strings."""
    return (text(value),) if isinstance(value, str) else texts(value)


def one_of(*accepted: str) -> Value:
    return Value(lambda value: choice(value, accepted), {"enum": list(accepted)})
