"""One entry of a call list against the extension's JSON Schema. Pure, but for reading the schema once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

_MAX_BREACHES = 10
_TEXTS = frozenset({"result", "error"})


@dataclass(frozen=True, slots=True)
class Breach:
    """What an entry should not be; `field` is "" where it is about the entry as a whole."""

    field: str
    message: str


def breaches(entry: Any) -> Iterator[Breach]:
    """Every way in which `entry` is not what an agent should write; none for a good one."""
    for number, error in enumerate(_validator().iter_errors(entry)):
        if number == _MAX_BREACHES:
            return
        field = str(error.path[0]) if error.path else ""
        where = f"`{field}`" if field else "the entry"
        if error.validator == "required":
            yield Breach("", f"{where} has no {error.message.partition(' is ')[0]}")
        elif error.validator == "type":
            expected = error.validator_value
            wanted = " or ".join(expected) if isinstance(expected, list) else expected
            yield Breach(field, f"{where} is of the wrong type, expected {wanted}")
        else:
            yield Breach(field, f"{where}: {error.message[:200]}")


def is_text_breach(breach: Breach) -> bool:
    """Whether readers mend it without loss: a result or an error that is not text."""
    return breach.field in _TEXTS


@cache
def _validator() -> Draft202012Validator:
    text = files("a2a_tool_capture").joinpath("schema/tool-call-capture-v1.schema.json").read_text("utf-8")
    return Draft202012Validator(json.loads(text)["items"])
