"""The tool calls of one request, in the order they began."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from .json_values import describe, plain_arguments, plain_text
from .models import ToolCall, ToolCallSource
from .spec import ARGUMENTS_UNKNOWN, METADATA_KEY, NOT_RECORDED_KEY

_log = logging.getLogger(__name__)

Arguments = Mapping[str, Any] | str | None
"""Arguments by name; JSON text of such an object, as model APIs return it; None if unknown."""

_MAX_REASONS = 20

Clock = Callable[[], datetime]
NewId = Callable[[], str]


def utc_now() -> datetime:
    return datetime.now(UTC)


def new_call_id() -> str:
    return f"call-{uuid.uuid4().hex}"


class CallRecording:
    """The calls of one request, in the order they began. Thread-safe; its methods never raise.

    A call without a name and an unknown id are ignored with a logged warning, so that recording never makes an agent
    fail. `bridges` are names of libraries that report runs of the agent with `heard_of`.
    """

    def __init__(self, clock: Clock = utc_now, new_id: NewId = new_call_id, bridges: Iterable[str] = ()) -> None:
        self._clock = clock
        self._new_id = new_id
        self._silent = dict.fromkeys(bridges)
        self._missed: dict[str, None] = {}
        self._calls: list[ToolCall] = []
        self._places: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def tool_calls(self) -> list[ToolCall]:
        """All calls so far; a running call has no result, error or `ended_at`."""
        return sorted(self._calls, key=_start)

    def metadata(self) -> dict[str, list[Any]]:
        """`Artifact.metadata` for an artifact that carries all calls so far."""
        return {METADATA_KEY: [wire_entry(call) for call in self.tool_calls], **self.missing()}

    def missing(self) -> dict[str, list[str]]:
        """The part of `metadata` that says why there may be more calls than the recorded ones; {} if there are not."""
        reasons = [*self._missed, *(f"{name} reported nothing: is its tracing disabled?" for name in self._silent)]
        return {NOT_RECORDED_KEY: reasons} if reasons else {}

    def missed(self, why: str) -> None:
        """Note that a call was not recorded."""
        if len(self._missed) < _MAX_REASONS:
            self._missed[why] = None

    def heard_of(self, bridge: str) -> None:
        """Note that a bridge sees what the agent does in this request."""
        self._silent.pop(bridge, None)

    def started(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        id: str = "",
        source: ToolCallSource = ToolCallSource.CLIENT,
        started_at: datetime | None = None,
    ) -> str:
        """Record the start of a call, now or at `started_at` (aware). Returns its id: `id`, or a new one.

        `arguments` is {} for a call without arguments, None if they are unknown. An id that was used before for the
        same tool is the same call: reported again if it runs, retried if it has ended. A retried call has the outcome
        of its last try.
        """
        return self._begin(name, arguments, id, source, started_at, tried_again=True)

    def _begin(
        self,
        name: str,
        arguments: Arguments,
        id: str,
        source: ToolCallSource,
        started_at: datetime | None,
        *,
        tried_again: bool,
    ) -> str:
        name, call_id = plain_text(name), plain_text(id) if id else self._new_id()
        if not name:
            _log.warning("a tool call without a name was not recorded; pass the name of the tool")
            return call_id
        given = plain_arguments(arguments)
        with self._lock:
            place = self._places.get(call_id)
            if place is not None and self._calls[place].name == name:
                call = self._calls[place]
                if given is not None:
                    call = replace(call, arguments=given)
                if tried_again:
                    call = replace(call, result=None, error=None, ended_at=None)
                self._calls[place] = call
                return call_id
            if place is not None:
                _log.warning("the id %r of a call of %r was used before; the call has a new id", call_id, name)
                call_id = self._new_id()
            self._places[call_id] = len(self._calls)
            self._calls.append(ToolCall(name, given, call_id, source=source, started_at=started_at or self._clock()))
        return call_id

    def finished(self, id: str, result: Any = None) -> None:
        """Record the result of a call: a string as it is, other values as JSON, None if unknown."""
        self._end(id, result=None if result is None else plain_text(result))

    def failed(self, id: str, error: Any) -> None:
        """Record that a call failed. `error` is a message or an exception."""
        self._end(id, error=error_text(error))

    def is_running(self, id: str) -> bool:
        """Whether the call with this id has started and not ended."""
        with self._lock:
            place = self._places.get(id)
            return place is not None and self._calls[place].ended_at is None

    def record(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        result: Any = None,
        error: Any = None,
        id: str = "",
        source: ToolCallSource = ToolCallSource.CLIENT,
        started_at: datetime | None = None,
    ) -> str:
        """Record a finished call. Returns its id; see `started`, `finished` and `failed`.

        With the id of an earlier call of the same tool, the values complete that call.
        """
        call_id = self._begin(name, arguments, id, source, started_at, tried_again=False)
        if name:
            self._end(
                call_id,
                result=None if result is None else plain_text(result),
                error=None if error is None else error_text(error),
            )
        return call_id

    def _end(self, call_id: str, *, result: str | None = None, error: str | None = None) -> None:
        with self._lock:
            place = self._places.get(call_id)
            if place is None:
                _log.warning(
                    "the end of tool call %r was ignored: no call with this id was started in this request", call_id
                )
                return
            call = self._calls[place]
            self._calls[place] = replace(
                call,
                result=call.result if result is None else result,
                error=call.error if error is None else error,
                ended_at=self._clock(),
            )


def _start(call: ToolCall) -> float:
    return call.started_at.timestamp() if call.started_at else 0.0


def wire_entry(call: ToolCall) -> dict[str, Any]:
    """A recorded call as an entry of version 1: says so if arguments are unknown, omits an unknown result."""
    entry: dict[str, Any] = {"id": call.id, "name": call.name}
    if call.arguments is None:
        entry[ARGUMENTS_UNKNOWN] = True
    else:
        entry["arguments"] = dict(call.arguments)
    if call.result is not None:
        entry["result"] = call.result
    if call.error is not None:
        entry["error"] = call.error
    return entry


def error_text(error: Any) -> str:
    """The message of an exception, or its type if it has none; other values as `plain_text`."""
    if isinstance(error, BaseException):
        return describe(error) or type(error).__name__
    return plain_text(error)
