"""`tool_call_validity`: do the calls conform to the definitions of the tools?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.models import ToolCall
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from ..evaluator import Measurement, SkipEvaluation, SyncEvaluator
from ..matching.explain import call_name
from ..model import EvalCase, ToolDefinition
from ..registry import register
from ..texts import excerpt
from .comparing import without_calls

MAX_MESSAGE = 160
"""Maximum length of a JSON Schema error, in characters: it may quote the whole argument."""

_NO_REMOTE: Registry[Any] = Registry()
"""Resolves references within a schema only and retrieves nothing: definitions are untrusted."""


@register
class ToolCallValidity(SyncEvaluator):
    """The share of calls that conform to the definition of their tool; 1 without calls.

    A call conforms if a tool of its name is defined and its arguments satisfy the JSON Schema of that tool (draft
    2020-12 unless `$schema` names another). 1.0 is a valid integer. Arguments that the schema does not have are invalid
    if it forbids them, or if the definition or the option `strict` is strict. Without definitions the result is
    skipped; with an empty list of them every call is of an unknown tool. A call whose arguments are unknown does not
    count if its tool is defined. An invalid schema makes the result `errored`; nothing is fetched.

    Details: `invalid`, a list of `{position, name, errors}`; `unknown`, the positions that do not count. Source:
    Dokimos.

    Example:

        tools:
          - {name: book, parameters: {type: object, properties: {nights: {type: integer}}, required: [nights]}}
        evaluators:
          - tool_call_validity: {strict: true}
    """

    reads_calls = True
    needs = ("tools",)
    spellings: ClassVar[Mapping[str, str]] = {"strict_mode": "strict"}

    strict: bool = False
    """True: every definition is strict: no further arguments."""

    def measure(self, case: EvalCase) -> Measurement:
        calls = case.tool_calls
        tools = {tool.name: tool for tool in case.tools or ()}
        unknown = [i for i, call in enumerate(calls) if call.arguments is None and call.name in tools]
        judged = len(calls) - len(unknown)
        if unknown and not judged:
            raise SkipEvaluation("the arguments of every call are unknown")
        errors = {
            index: found
            for index, call in enumerate(calls)
            if index not in unknown and (found := self._errors(call, tools.get(call.name)))
        }
        problems = [f"{call_name(index, calls)}: {found[0]}" for index, found in errors.items()]
        details = {
            "invalid": [
                {"position": index + 1, "name": calls[index].name, "errors": found} for index, found in errors.items()
            ],
            "unknown": [index + 1 for index in unknown],
        }
        return Measurement.share(
            judged - len(errors), judged, "call", "valid", problems, details | without_calls(case.tool_calls)
        )

    def _errors(self, call: ToolCall, tool: ToolDefinition | None) -> list[str]:
        if tool is None:
            return ["no tool of that name is defined"]
        strict = self.strict or tool.strict
        try:
            validator = _validator(canonical(tool.parameters), strict)
            # plain lists and objects, and integers in place of protobuf's floats (older drafts distinguish them)
            errors = validator.iter_errors(json.loads(canonical(call.arguments)))
            return [_description(error) for error in sorted(errors, key=lambda error: error.json_path)]
        except SchemaError as error:
            raise ValueError(f"the definition of {tool.name} is not a JSON Schema: {error.message}") from error
        except Unresolvable as error:
            raise ValueError(f"the definition of {tool.name} refers to {error.ref}, which is not in it") from error


@lru_cache(maxsize=512)
def _validator(schema_text: str, strict: bool) -> Validator:
    """A checked validator for the schema. Raises SchemaError."""
    schema: dict[str, Any] = json.loads(schema_text)
    cls = validator_for(schema, default=Draft202012Validator)
    cls.check_schema(schema)
    if strict:
        # follows $ref and allOf, if the draft supports it; `additionalProperties` does not
        modern = "unevaluatedProperties" in cls.VALIDATORS
        schema = {**schema, "unevaluatedProperties" if modern else "additionalProperties": False}
    return cls(schema, registry=_NO_REMOTE)


def _description(error: ValidationError) -> str:
    where = error.json_path.removeprefix("$").removeprefix(".")
    message = excerpt(error.message, MAX_MESSAGE)
    return f"{where}: {message}" if where else message
