"""Validates one entry of a call list against the extension's JSON Schema, which it reads once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator

_MAX_VIOLATIONS = 10


@dataclass(frozen=True, slots=True)
class SchemaViolation:
    """One violation of the schema; `field` is "" for the entry as a whole."""

    field: str
    message: str

    @property
    def of_text(self) -> bool:
        """Whether readers convert the value without loss: a result or an error that is not a string."""
        return self.field in ("result", "error")


def violations(entry: Any) -> Iterator[SchemaViolation]:
    """Yields the first _MAX_VIOLATIONS violations of the schema in `entry`."""
    for error in islice(_validator().iter_errors(entry), _MAX_VIOLATIONS):
        field = str(error.path[0]) if error.path else ""
        where = f"`{field}`" if field else "the entry"
        if error.validator == "required":
            yield SchemaViolation("", f"{where} has no {error.message.partition(' is ')[0]}")
        elif error.validator == "type":
            expected = error.validator_value
            wanted = " or ".join(expected) if isinstance(expected, list) else expected
            yield SchemaViolation(field, f"{where} has the wrong type, expected {wanted}")
        else:
            yield SchemaViolation(field, f"{where}: {error.message[:200]}")


@cache
def _validator() -> Draft202012Validator:
    text = files("a2a_tool_capture").joinpath("schema/tool-call-capture-v1.schema.json").read_text("utf-8")
    return Draft202012Validator(json.loads(text)["items"])
