"""Whether a call failed, by its error and result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from a2a_tool_capture.models import ToolCall, ToolCallSource

from ..texts import from_json, json_excerpt


def has_failed(call: Mapping[str, Any]) -> bool:
    """Whether a call in its JSON form failed, also if its result was removed (`failed`)."""
    return bool(call["failed"] if "failed" in call else why_failed(call["error"], call["result"]))


def outcome_unknown(call: ToolCall) -> bool:
    """Whether neither result nor error is seen, and need not be: in a trace, and where only the name of a call is."""
    if call.result is not None or call.error is not None:
        return False
    return call.source is ToolCallSource.OTEL_TRACE or call.arguments is None


def why_failed(error: str | None, result: str | None) -> str:
    """Why the call counts as failed; empty if it succeeded.

    It failed if it has an error that is not blank; or its result is null or blank; or its result is a JSON object whose
    top-level `error` is present and not null, or whose `isError` is true, as in a result of an MCP tool (MCP
    2025-06-18, CallToolResult).
    """
    if error is not None and error.strip():
        return f"error {json_excerpt(error)}"
    if result is None or not result.strip():
        return "no result"
    if _ERROR_OR_NULL.search(result):
        value = from_json(result)
        if value is None:
            return "result is null"
        if isinstance(value, Mapping) and value.get("error") is not None:
            return f"result has error {json_excerpt(value['error'])}"
        if isinstance(value, Mapping) and value.get("isError") is True:
            return f"result has isError, and content {json_excerpt(value.get('content'))}"
    return ""


_ERROR_OR_NULL = re.compile(r'"error"|"isError"|\\|\A\s*null\s*\Z')
"""What a result that is JSON null, or an object with the key `error` or `isError`, contains: perhaps as an escape."""
