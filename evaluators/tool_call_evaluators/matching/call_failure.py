"""Whether a call failed, by its error and result."""

from __future__ import annotations

import re
from collections.abc import Mapping

from a2a_tool_capture.models import ToolCall

from ..model import from_json, json_excerpt


def why_failed(call: ToolCall) -> str:
    """Why `call` counts as failed; empty if it succeeded.

    It failed if it has an error that is not blank; or its result is null or blank; or its result is a JSON object whose
    top-level `error` is present and not null, or whose `isError` is true, as in a result of an MCP tool (MCP
    2025-06-18, CallToolResult).
    """
    if call.error is not None and call.error.strip():
        return f"error {json_excerpt(call.error)}"
    if call.result is None or not call.result.strip():
        return "no result"
    if _ERROR_OR_NULL.search(call.result):
        result = from_json(call.result)
        if result is None:
            return "result is null"
        if isinstance(result, Mapping) and result.get("error") is not None:
            return f"result has error {json_excerpt(result['error'])}"
        if isinstance(result, Mapping) and result.get("isError") is True:
            return f"result has isError, and content {json_excerpt(result.get('content'))}"
    return ""


_ERROR_OR_NULL = re.compile(r'"error"|"isError"|\\|\A\s*null\s*\Z')
"""What a result that is JSON null, or an object with the key `error` or `isError`, contains: perhaps as an escape."""
