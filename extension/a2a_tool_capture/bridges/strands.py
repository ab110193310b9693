"""Tool calls of Strands Agents, `Agent(..., hooks=[ToolCallHooks(recorder)])`, and its A2A server."""

from __future__ import annotations

from typing import Any

from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent, HookProvider, HookRegistry
from strands.multiagent.a2a import A2AServer

from ..agent.executor import CapturingExecutor
from ..agent.middleware import CapturingMiddleware
from ..json_values import plain_text
from ..recorder import ToolCallRecorder


class ToolCallHooks(HookProvider):  # type: ignore[misc,unused-ignore]  # untyped without the framework
    """Records tool calls in the current request, with the model's ids.

    A call has an error if the tool raised, if its result has the status `error`, or if a hook cancelled it.
    """

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        registry.add_callback(BeforeToolCallEvent, self._began)
        registry.add_callback(AfterToolCallEvent, self._ended)

    def _began(self, event: BeforeToolCallEvent) -> None:
        use = event.tool_use
        self._recorder.started(use["name"], use["input"], id=use["toolUseId"])

    def _ended(self, event: AfterToolCallEvent) -> None:
        call_id, result = event.tool_use["toolUseId"], event.result
        if event.exception is not None:
            self._recorder.failed(call_id, event.exception)
        elif result.get("status") == "error":
            self._recorder.failed(call_id, _text(result) or "error")
        else:
            self._recorder.finished(call_id, _text(result))


class CapturingA2AServer(A2AServer):  # type: ignore[misc,unused-ignore]  # untyped without the framework
    """Strands' `A2AServer` with a `recorder`; other options are passed through.

    Its applications declare the extension and report calls to requests that activate it.
    """

    def __init__(self, *arguments: Any, recorder: ToolCallRecorder, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._recorder = recorder
        self.request_handler.agent_executor = CapturingExecutor(self.request_handler.agent_executor, recorder)

    def to_starlette_app(self, **options: Any) -> Any:
        app = super().to_starlette_app(**options)
        app.add_middleware(CapturingMiddleware, recorder=self._recorder)
        return app

    def to_fastapi_app(self, **options: Any) -> Any:
        app = super().to_fastapi_app(**options)
        app.add_middleware(CapturingMiddleware, recorder=self._recorder)
        return app


def _text(result: Any) -> str:
    """The text of a tool result, its blocks joined by line breaks; other blocks as JSON."""
    return "\n".join(
        block["text"] if "text" in block else plain_text(block.get("json", block)) for block in result["content"]
    )
