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
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from a2a_tool_capture.models import Severity, ToolCall

from ..agentdefaults import BINDINGS, AgentDefaults
from ..base import EvaluatorBase, is_built_in
from ..gates import TOLERABLE, Gate
from ..judge.settings import JudgeSettings
from ..matching import ArgumentMatcher
from ..model import COMPARATORS
from ..registry import evaluator_class, evaluator_names
from ..suite import CASE_KEYS, MAX_REPETITIONS, SUITE_KEYS, Expectation

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "pattern": r"\S"}
TEXTS: Schema = {"type": "array", "items": TEXT}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
NUMBER: Schema = {"type": "number"}
OBJECT: Schema = {"type": "object"}


def schema_text() -> str:
    """The schema as the text that is shipped."""
    return json.dumps(suite_schema(), indent=2, ensure_ascii=False) + "\n"


def suite_schema() -> Schema:
    """The schema of a suite file, in draft 7, which editors know best."""
    known = {"$ref": "#/definitions/evaluator"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "a2a-eval-proxy suite",
        **_object(
            {
                "suite": _told(TEXT, "The suite's name."),
                "agent": _told(_agent(), "How the agent is talked to; the command line overrides it."),
                "plugins": _told(TEXTS, "Python files with evaluators, relative to this file. They are run."),
                "evaluators": _told(_list({"$ref": "#/definitions/any_evaluator"}), "What is scored, in this order."),
                "judge": _told({"$ref": "#/definitions/judge"}, "The model that judged evaluators ask."),
                "tools": _tools("The tools the agent has"),
                "gates": _told(_gates(), "What metrics, and the run, must reach."),
                "tolerate": _told(_list({"enum": list(TOLERABLE)}), "What does not count against the run."),
                "cases": _told(_list({"$ref": "#/definitions/case"}), "What the user says, and what should happen."),
            },
            required=["suite"],
            keys=SUITE_KEYS,
        ),
        "if": {"not": {"required": ["plugins"]}},
        "then": {
            "properties": {
                "evaluators": _list(known),
                "cases": {"items": {"properties": {"evaluators": _list(known)}}},
            }
        },
        "definitions": {
            "case": _case(),
            "turn": _object({"user": TEXT, "expect": {"$ref": "#/definitions/expectation"}}, required=["user"]),
            "expectation": _expectation(),
            "call": _call(),
            "tool": {"type": "object", "description": "In our form, OpenAI's or MCP's."},
            "evaluator": _evaluators(),
            "any_evaluator": {
                "anyOf": [TEXT, {"type": "object", "minProperties": 1, "maxProperties": 1}],
                "description": "The name of an evaluator, or {name: options}.",
            },
            "matcher": _matcher(),
            "judge": _of_dataclass(JudgeSettings),
        },
    }


def _object(properties: Schema, required: Sequence[str] = (), keys: Sequence[str] | None = None) -> Schema:
    if keys is not None and set(keys) != set(properties):
        raise ValueError(f"the loader knows {sorted(keys)}, the schema {sorted(properties)}")
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _told(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _tools(what: str) -> Schema:
    listed = _list({"$ref": "#/definitions/tool"})
    return {"anyOf": [listed, TEXT], "description": f"{what}, or the name of a file with such a list."}


def _agent() -> Schema:
    return _object(
        {
            "url": {"type": "string", "pattern": "^https?://"},
            "headers": {"type": "object", "additionalProperties": TEXT},
            "binding": {"enum": list(BINDINGS)},
            "streaming": {"type": "boolean"},
            "timeout": _told({"type": "number", "exclusiveMinimum": 0}, "The longest time of a turn, in seconds."),
            "concurrency": _told({"type": "integer", "minimum": 1, "maximum": 1000}, "Conversations at once."),
        },
        keys=[item.name for item in fields(AgentDefaults)],
    )


def _gates() -> Schema:
    gate = _object(
        {"mean": NUMBER, "conversation_mean": NUMBER, "pass_rate": SHARE, "forbid": TEXTS},
        keys=[item.name for item in fields(Gate)],
    )
    most = {severity.value: {"type": "integer", "minimum": 0} for severity in Severity}
    return {
        "type": "object",
        "properties": {
            "findings": _told(_object(most), "The most findings of a severity over the run."),
            "captured": _told(SHARE, "The least share of turns that expect calls in which any was captured."),
            "pass_rate": _told(SHARE, "The least share of conversations that pass."),
        },
        "additionalProperties": {"anyOf": [NUMBER, {**gate, "minProperties": 1}]},
    }


def _case() -> Schema:
    return _object(
        {
            "id": _told(TEXT, "Unique in the suite."),
            "turns": _list({"$ref": "#/definitions/turn"}, minItems=1),
            "expect": {
                "allOf": [{"$ref": "#/definitions/expectation"}],
                "description": "Of all turns together; needs an evaluator with `scope: conversation`.",
            },
            "evaluators": _told(_list({"$ref": "#/definitions/any_evaluator"}), "In place of the suite's."),
            "user_goal": _told(TEXT, "What the user wants to reach, for judged evaluators."),
            "knowledge": _told(TEXT, "What the agent's answers must be faithful to."),
            "tasks": _told(TEXTS, "What is to be completed."),
            "constraints": _told({"anyOf": [TEXT, TEXTS]}, "What the tasks must be completed within."),
            "tools": _tools("In place of the suite's"),
            "tags": TEXTS,
            "repetitions": {"type": "integer", "minimum": 1, "maximum": MAX_REPETITIONS, "default": 1},
        },
        required=["id", "turns"],
        keys=CASE_KEYS,
    )


def _expectation() -> Schema:
    criterion = {
        "type": "array",
        "items": [{"enum": list(COMPARATORS)}, {"type": "integer"}],
        "minItems": 2,
        "additionalItems": False,
    }
    return _object(
        {
            "tool_calls": _told(_list({"$ref": "#/definitions/call"}), "Empty: no call at all."),
            "tool_calls_order": TEXTS,
            "tool_calls_count": {"type": "object", "additionalProperties": criterion},
            "tool_outputs": _list({"type": "object", "required": ["name", "output"]}),
            "response": _told({}, "The right answer: a text, or JSON data."),
            "response_contains": TEXT,
            "behavior": _told(TEXT, "What the agent should do, in words, for a judge."),
        },
        keys=[item.name for item in fields(Expectation)],
    )


def _call() -> Schema:
    anything: Schema = {}
    properties = {item.name: anything for item in fields(ToolCall)}
    arguments = _told({"type": ["object", "null"]}, "Expected arguments; null: any. Values may be placeholders.")
    return _object({**properties, "name": TEXT, "arguments": arguments}, required=["name"])


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
    schema["properties"]["threshold"] = _told(threshold, "The least score that passes; null: measure only.")
    schema["properties"]["id"] = _told({"type": ["string", "null"]}, "The name of its results.")
    scopes = ["conversation"] if cls.scope == "conversation" else ["turn", "conversation"]
    schema["properties"]["scope"] = _told({"enum": scopes}, "What it looks at: each turn, or a whole conversation.")
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
        return OBJECT if not values else {"type": "object", "additionalProperties": values}
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
