"""Tool calls of Pydantic AI, `Agent(..., capabilities=[ToolCallCapability(recorder)])`, and its A2A server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_ai import ApprovalRequired, CallDeferred, ModelRetry
from pydantic_ai.capabilities import (
    AbstractCapability,
    CapabilityOrdering,
)
from pydantic_ai.exceptions import SkipToolExecution

from ..agent.middleware import CapturingMiddleware
from ..recorder import ToolCallRecorder


@dataclass
class ToolCallCapability(AbstractCapability[Any]):  # type: ignore[misc,unused-ignore]  # untyped without the framework
    """Records function tool calls in the current request, with the model's ids and arguments.

    Invalid arguments and a tool's request to retry are errors of the call, whatever other capabilities do with them.
    A call that is deferred or waits for approval has no end.
    """

    recorder: ToolCallRecorder

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")

    async def on_tool_validate_error(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, error: Any) -> Any:
        self.recorder.record(call.tool_name, call.args or {}, error=_error_of(error), id=call.tool_call_id)
        raise error

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        recording = self.recorder.recording_of(call.tool_name)
        call_id = recording.started(call.tool_name, call.args or {}, id=call.tool_call_id)
        try:
            result = await handler(args)
        except (CallDeferred, ApprovalRequired):
            raise
        except SkipToolExecution as skipped:
            recording.finished(call_id, skipped.result)
            raise
        except BaseException as error:
            recording.failed(call_id, _error_of(error))
            raise
        recording.finished(call_id, "null" if result is None else result)
        return result

    @classmethod
    def get_serialization_name(cls) -> None:
        """None: an agent specification cannot refer to a recorder."""


def agent_to_a2a(agent: Any, *, recorder: ToolCallRecorder, **options: Any) -> Any:
    """`fasta2a.pydantic_ai.agent_to_a2a` with a `recorder`; other options are passed through.

    Returns the `FastA2A` application, which declares the extension and reports calls to requests that activate it.
    Raises ImportError if fasta2a is not installed.
    """
    from fasta2a.broker import InMemoryBroker
    from fasta2a.pydantic_ai import agent_to_a2a as plain_agent_to_a2a
    from fasta2a.storage import InMemoryStorage

    from .fasta2a import CapturingStorage

    broker = options.pop("broker", None) or InMemoryBroker()
    storage = CapturingStorage(options.pop("storage", None) or InMemoryStorage(), recorder, broker)
    app = plain_agent_to_a2a(agent, broker=broker, storage=storage, **options)
    app.add_middleware(CapturingMiddleware, recorder=recorder)
    return app


def _error_of(error: BaseException) -> Any:
    """The message that asks the model to retry, otherwise the exception."""
    match error:
        case ModelRetry():
            return error.message
        case ValidationError():
            return error
    retry = getattr(error, "tool_retry", None) or getattr(error, "tool_failed", None)
    return getattr(retry, "content", None) or error
