"""Tool calls of Google's Agent Development Kit, from a plugin: `App(..., plugins=[ToolCallPlugin(recorder)])`."""

from __future__ import annotations

from typing import Any

from google.adk.plugins.base_plugin import (
    BasePlugin,
)

from ..recorder import ToolCallRecorder


class ToolCallPlugin(BasePlugin):  # type: ignore[misc,unused-ignore]  # without the framework, of no type
    """Hands tool calls to the recorder's current request, under ADK's ids, and changes none of them.

    The request is found where the runner runs: with `Runner.run_async`; `Runner.run` works in a thread of its own.
    A tool that failed has an error and no result: what a callback tells the model in its place is not the tool's.
    """

    def __init__(self, recorder: ToolCallRecorder) -> None:
        super().__init__(name="tool_calls")
        self._recorder = recorder

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> None:
        self._recorder.started(tool.name, tool_args, id=tool_context.function_call_id or "")

    async def after_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any
    ) -> None:
        recording, call_id = self._recorder.current, tool_context.function_call_id or ""
        if recording is not None and recording.is_running(call_id):
            recording.finished(call_id, "null" if result is None and not tool.is_long_running else result)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> None:
        self._recorder.failed(tool_context.function_call_id or "", error)
