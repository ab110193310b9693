"""Tool calls of Google's Agent Development Kit, `App(..., plugins=[ToolCallPlugin(recorder)])`, and its A2A server."""

from __future__ import annotations

from typing import Any

from google.adk.plugins.base_plugin import (
    BasePlugin,
)

from ..function_parts import function_outcome
from ..recorder import ToolCallRecorder


class ToolCallPlugin(BasePlugin):  # type: ignore[misc,unused-ignore]  # untyped without the framework
    """Records tool calls in the current request, with ADK's ids, without changing them.

    Use `Runner.run_async`: `Runner.run` uses a separate thread, in which the request is unknown. A failed tool has an
    error and no result, even if a callback gives the model a replacement. A tool that returns `{"error": text}` has
    failed by ADK's convention.
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
        if recording is None or not recording.is_running(call_id):
            return
        if isinstance(result, dict):
            result, error = function_outcome(result)
            if error is not None:
                recording.failed(call_id, error)
                return
        recording.finished(call_id, "null" if result is None and not tool.is_long_running else result)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> None:
        self._recorder.failed(tool_context.function_call_id or "", error)


def to_a2a(agent: Any, *, recorder: ToolCallRecorder, agent_executor_factory: Any = None, **options: Any) -> Any:
    """`google.adk.a2a.utils.agent_to_a2a.to_a2a` with a `recorder`; other options are passed through.

    Returns the Starlette application, which declares the extension and reports calls to requests that activate it.
    Adds a `ToolCallPlugin` to the runner unless it has one. Raises ImportError if a2a-sdk is not installed
    (`google-adk[a2a]`).
    """
    from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
    from google.adk.a2a.utils.agent_to_a2a import to_a2a as plain_to_a2a

    from ..agent.executor import CapturingExecutor
    from ..agent.middleware import CapturingMiddleware

    def capturing_executor(runner: Any) -> Any:
        plugin = ToolCallPlugin(recorder)
        if runner.plugin_manager.get_plugin(plugin.name) is None:
            runner.plugin_manager.register_plugin(plugin)
        executor = agent_executor_factory(runner) if agent_executor_factory else A2aAgentExecutor(runner=runner)
        return CapturingExecutor(executor, recorder)

    app = plain_to_a2a(agent, agent_executor_factory=capturing_executor, **options)
    app.add_middleware(CapturingMiddleware, recorder=recorder)
    return app
