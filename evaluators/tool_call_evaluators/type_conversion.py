"""Converts arguments and results of tool calls to Python types."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast

from a2a_tool_capture.models import ToolCall
from pydantic import TypeAdapter

from .texts import from_json

T = TypeVar("T")


def arguments_as(call: ToolCall, model: type[T]) -> T:
    """The arguments as `model`: a pydantic model, a dataclass, or any other type that pydantic supports.

    Numbers compare by value, as protobuf converts all to floats: 5.0 is a valid integer. Raises pydantic's
    ValidationError, a ValueError, if they do not fit, and ValueError if they are unknown.
    """
    if call.arguments is None:
        raise ValueError(f"{call.name}: the arguments are not known")
    value: T = adapter(cast(Any, model)).validate_python(dict(call.arguments))
    return value


def result_as(call: ToolCall, model: type[T]) -> T | None:
    """The result as `model`: its JSON value, or the string itself if it is not JSON; None without a result.

    Raises pydantic's ValidationError, a ValueError, if it does not fit.
    """
    text = call.result
    if text is None or not text.strip():
        return None
    value: T = adapter(cast(Any, model)).validate_python(text if model is str else from_json(text))
    return value


def result_json(value: Any) -> str:
    """The text of a tool's result for a value: JSON on one line, without blanks; `null` for None.

    `result_as` is the inverse, except for strings. Raises ValueError for a value that pydantic does not write as JSON.
    """
    return adapter(Any).dump_json(value).decode()


@lru_cache(maxsize=256)
def adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)
