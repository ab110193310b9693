"""Tool calls of LangChain and LangGraph: `agent.with_config(callbacks=[ToolCallHandler(recorder)])`.

Records every tool that the runnable calls, including those in threads and subgraphs.
"""

from __future__ import annotations

import threading
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage

from ..recorder import NO_RECORDING, CallRecording, ToolCallRecorder


class ToolCallHandler(BaseCallbackHandler):  # type: ignore[misc,unused-ignore]  # untyped without the framework
    """Records tool runs in the current request, with the model's call id if there is one.

    LangChain calls the handler in the context of the tool's run, which identifies the request. A call has an error if
    the tool raised, also if LangChain converted the error into a message for the model.
    """

    run_inline = True  # asynchronous runs wait for the handler, so that a start precedes its end
    ignore_llm = ignore_chat_model = ignore_chain = ignore_retriever = ignore_retry = ignore_custom_event = True

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder
        self._ids: WeakKeyDictionary[CallRecording, dict[UUID, str]] = WeakKeyDictionary()
        """Ids of running calls, dropped with their request because cancelled runs have no end event."""
        self._lock = threading.Lock()

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        inputs: dict[str, Any] | None = None,
        tool_call_id: str | None = None,
        **_: Any,
    ) -> None:
        name = str((serialized or {}).get("name", ""))
        recording = self._recorder.recording_of(name)
        if recording is NO_RECORDING:
            return
        call_id = recording.started(name, input_str if inputs is None else inputs, id=tool_call_id or "")
        with self._lock:
            self._ids.setdefault(recording, {})[run_id] = call_id

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        recording, call_id = self._ending(run_id)
        if recording is None:
            return
        message = _tool_message(output)
        if message is None:
            recording.finished(call_id, "null" if output is None else output)
        elif message.status == "error":
            recording.failed(call_id, message.content)
        else:
            recording.finished(call_id, message.content)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        recording, call_id = self._ending(run_id)
        if recording is not None:
            recording.failed(call_id, error)

    def _ending(self, run_id: UUID) -> tuple[CallRecording, str] | tuple[None, str]:
        recording = self._recorder.current
        if recording is None:
            return None, ""
        with self._lock:
            call_id = self._ids.get(recording, {}).pop(run_id, None)
        return (None, "") if call_id is None else (recording, call_id)


def _tool_message(output: Any) -> ToolMessage | None:
    """The message for the model: the output itself, or the last one in the state update of a LangGraph `Command`."""
    update = getattr(output, "update", None)
    messages = update.get("messages") if isinstance(update, dict) else [output]
    tool_messages = [message for message in messages or () if isinstance(message, ToolMessage)]
    return tool_messages[-1] if tool_messages else None
