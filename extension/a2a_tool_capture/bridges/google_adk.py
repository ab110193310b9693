"""Tool calls of Google's Agent Development Kit, `App(..., plugins=[ToolCallPlugin(recorder)])`, and its A2A server."""

from __future__ import annotations

from typing import Any

from google.adk.plugins.base_plugin import (
    BasePlugin,
)

from ..dialects import function_outcome
from ..recorder import ToolCallRecorder


class ToolCallPlugin(BasePlugin):  # type: ignore[misc,unused-ignore]  # without the framework, of no type
    """Hands tool calls to the recorder's current request, under ADK's ids, and changes none of them.

    The request is found where the runner runs: with `Runner.run_async`; `Runner.run` works in a thread of its own.
    A tool that failed has an error and no result: what a callback tells the model in its place is not the tool's. A
    tool that returns `{"error": text}` has failed, too: ADK's convention, as its data parts and traces are read.
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
            outcome = function_outcome(result)
            if outcome.error is not None:
                recording.failed(call_id, outcome.error)
                return
            result = outcome.result
        recording.finished(call_id, "null" if result is None and not tool.is_long_running else result)

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: BaseException
    ) -> None:
        self._recorder.failed(tool_context.function_call_id or "", error)


def to_a2a(agent: Any, *, recorder: ToolCallRecorder, agent_executor_factory: Any = None, **options: Any) -> Any:
    """`google.adk.a2a.utils.agent_to_a2a.to_a2a` for an agent whose tool calls `recorder` records; the same options.

    Returns the Starlette application, which declares the extension and tells calls to requests that ask. The runner
    gets a `ToolCallPlugin`, unless it has one. Raises ImportError where a2a-sdk is not installed (`google-adk[a2a]`).
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
