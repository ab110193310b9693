"""Tool calls through an MCP client: use `ToolCallSession(session, recorder)` in place of `session`."""

from __future__ import annotations

from typing import Any

from ..json_values import plain_text
from ..recorder import NO_RECORDING, ToolCallRecorder


class ToolCallSession:
    """Wraps an MCP `ClientSession` or `Client` and records each `call_tool` in the current request.

    All other attributes are the session's. A result marked as an error, as MCP servers report failures of a tool, is
    the call's error; so is an exception, which propagates.
    """

    def __init__(self, session: Any, recorder: ToolCallRecorder) -> None:
        self._session = session
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, *args: Any, **options: Any) -> Any:
        if self._recorder.recording_of(name) is NO_RECORDING:
            return await self._session.call_tool(name, arguments, *args, **options)
        with self._recorder.call(name, arguments or {}) as call:
            result = await self._session.call_tool(name, arguments, *args, **options)
            if getattr(result, "is_error", getattr(result, "isError", False)):
                call.error = _text(result) or "error"
            else:
                call.result = _text(result)
        return result


def _text(result: Any) -> str:
    """The text of a result that contains only text, otherwise its content as JSON."""
    blocks = getattr(result, "content", None)
    if blocks is None:  # a result type of a protocol extension
        return plain_text(result)
    texts = [block.text for block in blocks if getattr(block, "type", "") == "text"]
    if texts and len(texts) == len(blocks):
        return "\n".join(texts)
    structured = getattr(result, "structured_content", getattr(result, "structuredContent", None))
    if not blocks and structured is not None:
        return plain_text(structured)
    return plain_text([block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in blocks])
