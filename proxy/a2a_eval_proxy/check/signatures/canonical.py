"""The canonical forms of a card, over which signers compute signatures. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import rfc8785
from a2a.types import AgentCard
from a2a_tool_capture.json_depth import READ, too_deep
from a2a_tool_capture.json_values import not_json
from google.api import field_behavior_pb2
from google.protobuf.json_format import Error as JsonFormatError
from google.protobuf.json_format import MessageToDict, ParseDict

MAX_CARD_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CanonicalForm:
    """`data` is what a signature covers. `uncovered` are top-level fields of the card that `data` lacks."""

    data: bytes
    uncovered: tuple[str, ...] = ()


def decode_strictly(data: bytes) -> Any:
    """Decode JSON that means the same to every reader. Raises ValueError with the reason otherwise.

    Numbers are doubles (RFC 8785, section 3.2.2.3). A repeated key, NaN, a lone surrogate and deep nesting are refused.
    """
    try:
        value = json.loads(data, object_pairs_hook=_unique, parse_int=float, parse_constant=not_json)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error})") from None
    if too_deep(value):
        raise ValueError(f"it is nested deeper than {READ} levels")
    return value


def canonical_forms(card: dict[str, Any]) -> list[CanonicalForm]:
    """Returns the forms that signers use, without duplicates. Raises ValueError for a card without canonical form.

    First that of the specification: fields of A2A 1.0, without those that have their default value unless they are
    required. Then that of the SDKs, which leave out required fields, too, if they are empty. Then the card as it was
    served, with and without its empty fields: it may have fields of other versions.
    """
    served = {name: value for name, value in card.items() if name != "signatures"}
    forms = []
    try:
        known = MessageToDict(ParseDict(served, AgentCard(), ignore_unknown_fields=True))
    except (JsonFormatError, TypeError, AttributeError, ValueError):  # no card of A2A 1.0
        known = None
    if known is not None:
        everything = _without_empty(known) or {}
        names = (name for name, value in served.items() if _without_empty(value) != everything.get(name))
        uncovered = tuple(sorted(name for name in names if _without_empty(served[name]) is not None))
        forms += [CanonicalForm(_canonical(form), uncovered) for form in (_with_required(known, served), everything)]
    forms += [CanonicalForm(_canonical(form)) for form in (served, _without_empty(served) or {})]
    return list(dict.fromkeys(forms))


def _canonical(value: Any) -> bytes:
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise ValueError(f"it has no canonical form ({error})") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has the key {next(name for name in names if names.count(name) > 1)!r} twice")
    return found


def _without_empty(value: Any) -> Any:
    """The value without empty strings, lists, objects and nulls, at any depth; None if nothing is left."""
    if isinstance(value, dict):
        kept = {name: inner for name, item in value.items() if (inner := _without_empty(item)) is not None}
        return kept or None
    if isinstance(value, list):
        return [inner for item in value if (inner := _without_empty(item)) is not None] or None
    return None if value == "" else value


def _with_required(known: dict[str, Any], served: dict[str, Any]) -> dict[str, Any]:
    """The known fields, and those that are required and were served with their default value."""
    required = {
        field.json_name
        for field in AgentCard.DESCRIPTOR.fields
        if field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    }
    return known | {name: value for name, value in served.items() if name in required - known.keys()}
