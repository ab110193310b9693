"""The JSON Schema of suite files, made from the declarations of suites and of the options of evaluators.

It describes what `parse_suite` accepts, as far as a schema can, except for evaluators and options in another case
(`options.canonical_options`). It contains the built-in evaluators; in a suite with plug-ins it accepts others.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cache
from typing import Any, NoReturn

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticOmit

from ..evaluator import EvaluatorBase
from ..judge.settings import JudgeSettings
from ..options import spellings_of
from ..registry import built_in_evaluators
from ..simulation.settings import MODEL_OPTIONS, SimulatedUserSettings
from ..suite_fields import Schema
from .model import Suite

_DEFINITION = "#/definitions/"
_IN_CODE = ("ExpectedOutput", "ToolCall", "ToolCallSource")
"""Classes whose objects only code can give."""


def schema_text() -> str:
    """The text of a file with the schema."""
    return json.dumps(suite_schema(), indent=2, ensure_ascii=False) + "\n"


@cache
def suite_schema() -> Schema:
    """The schema of a suite file with the built-in evaluators, in draft 7, which editors support best."""
    evaluators = built_in_evaluators()
    classes: dict[str, Any] = {
        "suite": Suite, "judge": JudgeSettings, "simulated_user": SimulatedUserSettings, **evaluators
    }  # fmt: skip
    forms, shared = TypeAdapter.json_schemas(
        [(name, "validation", TypeAdapter(cls)) for name, cls in classes.items()],
        ref_template=_DEFINITION + "{model}",
        schema_generator=_Generator,
    )
    definitions = shared["$defs"]
    for name in _IN_CODE:
        definitions.pop(name, None)
    options = {name: definitions.pop(form["$ref"].removeprefix(_DEFINITION)) for (name, _), form in forms.items()}
    suite = options.pop("suite")
    properties = suite["properties"]
    del properties["run_gates"]
    properties["gates"]["properties"] = definitions.pop("RunGates")["properties"]
    judge = options.pop("judge")
    properties["judge"] |= judge
    properties["simulated_user"] |= _simulated_user(options.pop("simulated_user"), judge["properties"])
    known = {"type": "array", "items": {"$ref": f"{_DEFINITION}evaluator"}}
    own = {"items": {"properties": {"evaluators": known}}}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "a2a-eval-proxy suite",
        **suite,
        "if": {"not": {"required": ["plugins"]}},
        "then": {"properties": {"evaluators": known, "cases": own}},
        "definitions": {
            **definitions,
            "evaluator": _evaluators({name: _options(evaluators[name], form) for name, form in options.items()}),
        },
    }


class _Generator(GenerateJsonSchema):
    """Omits values that files cannot contain, titles, and defaults that only mean a missing key."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> NoReturn:
        raise PydanticOmit  # functions, judges

    def union_schema(self, schema: Any) -> Schema:
        union = super().union_schema(schema)
        forms = [form for form in union.get("anyOf", ()) if form.get("$ref") not in map(_DEFINITION.__add__, _IN_CODE)]
        if any("ArgumentMatcher" in form.get("$ref", "") for form in forms):  # its options say what an object may hold
            forms = [form for form in forms if form.get("additionalProperties") is not True]
        return union | {"anyOf": forms} if forms else union

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> Schema:
        default = schema.get("default")
        stated = {"default": default} if isinstance(default, int | str) else {}
        return self.generate_inner(schema["schema"]) | stated

    def dataclass_schema(self, schema: Any) -> Schema:
        whole = super().dataclass_schema(schema)
        return {name: value for name, value in whole.items() if name != "title"}


def _simulated_user(schema: Schema, judge: Schema) -> Schema:
    """With the options of a model as in `judge`, their schemas in a judge."""
    own = {name: form for name, form in schema["properties"].items() if name != "model_options"}
    shared = {name: {key: item for key, item in judge[name].items() if key != "default"} for name in MODEL_OPTIONS}
    return {"type": "object", "properties": own | shared, "additionalProperties": False}


def _evaluators(options: Mapping[str, Schema]) -> Schema:
    alone = [name for name, form in options.items() if "required" not in form]
    named = {name: form | {"type": ["object", "null"]} if name in alone else form for name, form in options.items()}
    one = {"type": "object", "properties": named, "additionalProperties": False, "minProperties": 1, "maxProperties": 1}
    return {"anyOf": [{"enum": alone}, one], "description": "The name of an evaluator, or {name: options}."}


@cache
def _described(cls: type) -> Mapping[str, str]:
    """The descriptions of the options that a base class declares; pydantic reads only those of the class itself."""
    if not is_dataclass(cls):
        return {}
    properties = TypeAdapter(cls).json_schema(schema_generator=_Generator)["properties"]
    return {name: form["description"] for name, form in properties.items() if "description" in form}


def _options(cls: type[EvaluatorBase], schema: Schema) -> Schema:
    """The options of an evaluator, with descriptions of those that all have."""
    properties = schema["properties"]
    if "scale" not in properties:
        low, high = cls.scale
        properties["threshold"] |= {"minimum": low, "maximum": high}
    properties["threshold"]["description"] = "The lowest score that passes; null: measure only."
    properties["id"]["description"] = "The name of its results."
    scopes = ["conversation"] if cls.scope == "conversation" else ["turn", "conversation"]
    properties["scope"] = {"enum": scopes, "description": "What it scores: each turn, or a whole conversation."}
    for base in cls.__mro__[1:]:
        for name, text in _described(base).items():
            properties.get(name, {}).setdefault("description", text)
    for spelling, option in spellings_of(cls).items():
        properties[spelling] = properties[option]
    if cls.__doc__:
        schema["description"] = inspect.cleandoc(cls.__doc__).split("\n\n")[0].replace("\n", " ")
    return schema
