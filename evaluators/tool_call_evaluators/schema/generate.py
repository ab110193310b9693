"""Makes the schema from the evaluators' options and the dataclasses behind a suite, so that it cannot lag behind.

It describes what `parse_suite` accepts as far as a schema can. It knows the built-in evaluators: in a suite that
names plug-ins, others are let through.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from ..base import EvaluatorBase, is_built_in
from ..declared import Schema
from ..judge.settings import JudgeSettings
from ..matching import ArgumentMatcher
from ..registry import evaluator_class, evaluator_names
from ..suite.model import Suite
from ..suite.parsing import adapter

if TYPE_CHECKING:
    from pydantic.json_schema import GenerateJsonSchema


def schema_text() -> str:
    """The schema as the text that is shipped."""
    return json.dumps(suite_schema(), indent=2, ensure_ascii=False) + "\n"


def suite_schema() -> Schema:
    """The schema of a suite file, in draft 7, which editors know best."""
    suite = adapter(Suite).json_schema(ref_template="#/definitions/{model}", schema_generator=_generator())
    definitions = suite.pop("$defs")
    properties = suite["properties"]
    del properties["run_gates"]
    properties["gates"]["properties"] = definitions.pop("RunGates")["properties"]
    properties["judge"] |= _of_dataclass(JudgeSettings)
    known = {"$ref": "#/definitions/evaluator"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "a2a-eval-proxy suite",
        **suite,
        "if": {"not": {"required": ["plugins"]}},
        "then": {
            "properties": {
                "evaluators": _list(known),
                "cases": {"items": {"properties": {"evaluators": _list(known)}}},
            }
        },
        "definitions": {**definitions, "evaluator": _evaluators(), "matcher": _matcher()},
    }


def _generator() -> type[GenerateJsonSchema]:
    from pydantic.json_schema import GenerateJsonSchema

    class Generator(GenerateJsonSchema):
        """Without titles, and without defaults that only say that a key is left out."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        def default_schema(self, schema: Any) -> Schema:
            default = schema.get("default")
            stated = {"default": default} if isinstance(default, int | str) else {}
            return self.generate_inner(schema["schema"]) | stated

        def dataclass_schema(self, schema: Any) -> Schema:
            whole = super().dataclass_schema(schema)
            return {name: value for name, value in whole.items() if name != "title"}

    return Generator


def _object(properties: Schema, required: Sequence[str] = ()) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _matcher() -> Schema:
    options = _of_dataclass(ArgumentMatcher)
    options["properties"]["per_tool"] = {
        "type": "object",
        "additionalProperties": {"$ref": "#/definitions/matcher"},
    }
    modes = options["properties"]["mode"]
    return {"anyOf": [modes, options], "description": "How arguments are compared: a mode, or options."}


def _evaluators() -> Schema:
    classes = {name: evaluator_class(name) for name in evaluator_names()}
    own = {name: cls for name, cls in classes.items() if is_built_in(cls)}
    options = {name: _options(cls) for name, cls in own.items()}
    alone = [name for name, schema in options.items() if "required" not in schema]
    return {
        "anyOf": [
            {"enum": alone},
            {
                **_object({name: _or_null(schema) for name, schema in options.items()}),
                "minProperties": 1,
                "maxProperties": 1,
            },
        ],
        "description": "The name of an evaluator, or {name: options}.",
    }


def _or_null(schema: Schema) -> Schema:
    return schema if "required" in schema else {**schema, "type": ["object", "null"]}


def _options(cls: type[EvaluatorBase]) -> Schema:
    schema = _of_dataclass(cls)
    low, high = getattr(cls, "scale", (0.0, 1.0)) if "scale" not in schema["properties"] else (None, None)
    threshold: Schema = {"type": ["number", "null"]}
    if low is not None:
        threshold |= {"minimum": low, "maximum": high}
    schema["properties"]["threshold"] = _described(threshold, "The least score that passes; null: measure only.")
    schema["properties"]["id"] = _described({"type": ["string", "null"]}, "The name of its results.")
    scopes = ["conversation"] if cls.scope == "conversation" else ["turn", "conversation"]
    schema["properties"]["scope"] = _described(
        {"enum": scopes}, "What it looks at: each turn, or a whole conversation."
    )
    for spelling, option in cls.spellings.items():
        schema["properties"][spelling] = schema["properties"][option]
    if cls.__doc__:
        schema["description"] = inspect.cleandoc(cls.__doc__).split("\n\n")[0].replace("\n", " ")
    return schema


def _of_dataclass(cls: type) -> Schema:
    """An object with the dataclass's fields, as far as a file can give them."""
    hints = get_type_hints(cls)
    items = [item for item in fields(cls) if item.init and _of_hint(hints[item.name]) is not None]
    needed = [item.name for item in items if item.default is MISSING and item.default_factory is MISSING]
    return _object({item.name: _of_hint(hints[item.name]) or {} for item in items}, needed)


def _of_hint(hint: Any) -> Schema | None:
    """The schema of values of a type; None where no file can give one (functions, classes)."""
    if hint is Any:
        return {}
    origin, args = get_origin(hint), get_args(hint)
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, UnionType):
        if ArgumentMatcher in args:
            return {"$ref": "#/definitions/matcher"}
        return _any_of([schema for arg in args if (schema := _of_hint(arg)) is not None])
    if origin is Sequence:
        items = _of_hint(args[0])
        return {"type": "array"} if not items else _list(items)
    if origin is Mapping:
        values = _of_hint(args[1])
        return {"type": "object"} if not values else {"type": "object", "additionalProperties": values}
    if origin is Callable or isinstance(hint, type):
        return None
    raise TypeError(f"no schema for {hint!r}")


def _any_of(schemas: list[Schema]) -> Schema | None:
    """One of these; None where there are none but null."""
    if all(schema == {"type": "null"} for schema in schemas):
        return None
    if all(schema.keys() == {"type"} for schema in schemas):
        types = [schema["type"] for schema in schemas]
        return {"type": types if len(types) > 1 else types[0]}
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


_SIMPLE = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}
