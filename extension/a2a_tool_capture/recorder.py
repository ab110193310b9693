"""Records the tool calls of the current request, in the order they began."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import os
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from typing import Any, ParamSpec, TypeVar, overload
from weakref import WeakSet

from .json_values import describe, for_protobuf, plain_arguments, plain_text
from .models import ToolCall, ToolCallSource, rfc3339
from .spec import (
    ARGUMENTS_JSON,
    ARGUMENTS_UNKNOWN,
    DEFAULT_ARGUMENTS,
    ENDED_AT,
    METADATA_KEY,
    NOT_RECORDED_KEY,
    STARTED_AT,
)

_log = logging.getLogger(__name__)

Arguments = Mapping[str, Any] | str | None
"""Arguments by name; JSON text of such an object, as model APIs return it; None if unknown."""

_MAX_REASONS = 20


def _new_id() -> str:
    return f"call-{uuid.uuid4().hex}"


class CallRecording:
    """The calls of one request, in the order they began. Thread-safe; its methods never raise.

    A call without a name and an unknown id are ignored with a logged warning, so that recording never makes an agent
    fail. `bridges` are names of libraries that report runs of the agent with `heard_of`.
    """

    def __init__(self, bridges: Iterable[str] = ()) -> None:
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
        default_arguments: Iterable[str] = (),
        tried_again: bool = True,
    ) -> str:
        """Record the start of a call, now or at `started_at` (aware). Returns its id: `id`, or a new one.

        `arguments` is {} for a call without arguments, None if they are unknown; `default_arguments` are the names of
        those that the model need not have given, because they are the tool's defaults. An id that was used before for
        the same tool is the same call: reported again if it runs, retried if it has ended and was `tried_again`. A
        retried call has the outcome of its last try.
        """
        name, call_id = plain_text(name), plain_text(id) if id else _new_id()
        if not name:
            _log.warning("a tool call without a name was not recorded; pass the name of the tool")
            return call_id
        given = plain_arguments(arguments)
        with self._lock:
            place = self._places.get(call_id)
            if place is not None and self._calls[place].name == name:
                call = self._calls[place]
                if given is not None:
                    call = replace(call, arguments=given, default_arguments=tuple(default_arguments))
                if tried_again:
                    call = replace(call, result=None, error=None, ended_at=None)
                self._calls[place] = call
                return call_id
            if place is not None:
                _log.warning("the id %r of a call of %r was used before; the call has a new id", call_id, name)
                call_id = _new_id()
            self._places[call_id] = len(self._calls)
            call = ToolCall(name, given, call_id, source=source, started_at=started_at or datetime.now(UTC))
            self._calls.append(replace(call, default_arguments=tuple(default_arguments)))
        return call_id

    def finished(self, id: str, result: Any = None) -> None:
        """Record the result of a call: a string as it is, other values as JSON, None if unknown."""
        self._end(id, result=result)

    def failed(self, id: str, error: Any) -> None:
        """Record that a call failed. `error` is a message or an exception."""
        self._end(id, error=error)

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
        call_id = self.started(name, arguments, id=id, source=source, started_at=started_at, tried_again=False)
        if name:
            self._end(call_id, result=result, error=error)
        return call_id

    def add(self, call: ToolCall) -> None:
        """Record a finished call with its own source and times, which may be unknown. It has a new id if it has none,
        or one that was used before."""
        with self._lock:
            if not call.id or call.id in self._places:
                call = replace(call, id=_new_id())
            self._places[call.id] = len(self._calls)
            self._calls.append(call)

    def _end(self, call_id: str, *, result: Any = None, error: Any = None) -> None:
        result = None if result is None else plain_text(result)
        error = None if error is None else error_text(error)
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
                ended_at=datetime.now(UTC),
            )


class _NoRecording(CallRecording):
    """Of a request that did not activate the extension: keeps nothing."""

    def started(self, name: str, arguments: Arguments = None, *, id: str = "", **_: Any) -> str:
        return id

    def _end(self, call_id: str, **_: Any) -> None:
        """Nothing was started."""


NO_RECORDING = _NoRecording()


def _start(call: ToolCall) -> float:
    return call.started_at.timestamp() if call.started_at else 0.0


def wire_entry(call: ToolCall) -> dict[str, Any]:
    """A recorded call as an entry of version 1: says so if arguments are unknown, omits an unknown result.

    Arguments with integers that protobuf would round are there twice: with strings in their place, and as JSON text.
    """
    arguments = for_protobuf(call.arguments)
    entry = {
        "id": call.id,
        "name": call.name,
        "arguments": None if arguments is None else dict(arguments),
        ARGUMENTS_UNKNOWN: True if arguments is None else None,
        ARGUMENTS_JSON: None if arguments is call.arguments else plain_text(call.arguments),
        DEFAULT_ARGUMENTS: list(call.default_arguments) or None,
        "result": call.result,
        "error": call.error,
        STARTED_AT: call.started_at and rfc3339(call.started_at),
        ENDED_AT: call.ended_at and rfc3339(call.ended_at),
    }
    return {key: value for key, value in entry.items() if value is not None}


def error_text(error: Any) -> str:
    """The message of an exception, or its type if it has none; other values as `plain_text`."""
    if isinstance(error, BaseException):
        return describe(error) or type(error).__name__
    return plain_text(error)


P = ParamSpec("P")
R = TypeVar("R")

ENVIRONMENT_FLAG = "A2A_TOOL_CAPTURE"
"""Environment variable that disables recording for a deployment; see `ToolCallRecorder`."""

_FLAG_VALUES = {"": True, "on": True, "1": True, "true": True, "off": False, "0": False, "false": False}


@dataclass(slots=True)
class CallHandle:
    """A call in `ToolCallRecorder.call`: set `result`, or `error` if the tool failed without raising."""

    result: Any = None
    error: Any = None


class ToolCallRecorder:
    """Records the tool calls of the current request. Create one per agent and share it.

    In requests that did not activate the extension every method does nothing. The current request is found with
    `contextvars`: asyncio tasks, `asyncio.to_thread`, the event loop's default executor (which frameworks use for tools
    that are plain functions) and callables run by `contextvars.copy_context().run` record into the request in which
    they were started. Calls outside a request are not recorded: the requests that are active then say so in their
    metadata, since the call may be theirs, and the first one is logged as a warning, because the server may not use
    this recorder.

    If it is not `enabled`, no request activates the extension. The default is read from the environment when the
    recorder is created: `A2A_TOOL_CAPTURE=off` (or 0, false) disables it.

    Raises ValueError if the variable has another value.
    """

    def __init__(self, *, enabled: bool | None = None) -> None:
        self.enabled = _enabled_by_environment() if enabled is None else enabled
        self._request: ContextVar[CallRecording | None] = ContextVar("request")
        """None in a request that did not activate the extension, without a value outside of requests."""
        self._warned = False
        self._bridges: list[str] = []
        self._active: WeakSet[CallRecording] = WeakSet()
        self._lock = Lock()

    @contextmanager
    def request(self, *, activated: bool = True) -> Iterator[CallRecording | None]:
        """Make the block one request, with a new recording if it `activated` the extension, else None."""
        recording = self.new_recording() if activated else None
        token = self._request.set(recording)
        try:
            yield recording
        finally:
            if recording is not None:
                with self._lock:
                    self._active.discard(recording)
            self._request.reset(token)

    def new_recording(self) -> CallRecording | None:
        """A recording for `resume`; None if the recorder is not enabled."""
        if not self.enabled:
            return None
        follow_into_threads()
        recording = CallRecording(self._bridges)
        with self._lock:
            self._active.add(recording)
        return recording

    def expect(self, bridge: str) -> None:
        """Have requests say so in which the library of this name reports nothing (`CallRecording.heard_of`)."""
        if bridge not in self._bridges:
            self._bridges.append(bridge)

    def resume(self, recording: CallRecording | None) -> None:
        """Make the request of `recording` current in this context; None if it does not activate the extension.

        For servers that receive a message in one place and run the agent in another, such as workers with a queue.
        Use `request` if one block of code does both.
        """
        self._request.set(recording)

    @property
    def current(self) -> CallRecording | None:
        """The recording of the current request; None if calls are not recorded."""
        return self._request.get(None)

    def recording_of(self, tool: str) -> CallRecording:
        """The recording for a call of `tool`: `NO_RECORDING` if calls are not recorded. Logs one warning if there is no
        request."""
        try:
            return self._request.get() or NO_RECORDING
        except LookupError:
            pass
        with self._lock:
            for recording in self._active:
                recording.missed(f"a call of {tool!r} was made outside of any request, as in a thread without context")
        if self.enabled and not self._warned:
            self._warned = True
            _log.warning(
                "a call of tool %r was not recorded because it was made outside of any request of this recorder; "
                "further ones are not logged. Serve the agent with this recorder (CapturingRequestHandler, or the "
                "bridge of your framework; see the README of a2a-tool-capture), and copy the context to your own "
                "threads (contextvars.copy_context)",
                tool,
            )
        return NO_RECORDING

    @property
    def tool_calls(self) -> list[ToolCall]:
        """All calls of the current request so far; [] if calls are not recorded."""
        return (self.current or NO_RECORDING).tool_calls

    def metadata(self) -> dict[str, list[Any]]:
        """`CallRecording.metadata` of the current request; {} if calls are not recorded."""
        recording = self.current
        return {} if recording is None else recording.metadata()

    def record(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        result: Any = None,
        error: Any = None,
        id: str = "",
    ) -> None:
        """Record a finished call; see `CallRecording.record`."""
        self.recording_of(name).record(name, arguments, result=result, error=error, id=id)

    def started(self, name: str, arguments: Arguments = None, *, id: str = "") -> str:
        """Record the start of a call; see `CallRecording.started`. Returns `id` if calls are not recorded."""
        return self.recording_of(name).started(name, arguments, id=id)

    def finished(self, id: str, result: Any = None) -> None:
        """Record the result of a call; see `CallRecording.finished`."""
        (self.current or NO_RECORDING).finished(id, result)

    def failed(self, id: str, error: Any) -> None:
        """Record the error of a call; see `CallRecording.failed`."""
        (self.current or NO_RECORDING).failed(id, error)

    @contextmanager
    def call(
        self, name: str, arguments: Arguments = None, *, id: str = "", default_arguments: Iterable[str] = ()
    ) -> Iterator[CallHandle]:
        """Record the call made in the block. An exception, including cancellation, becomes its error and propagates.

        For `default_arguments`, see `CallRecording.started`.
        """
        call = CallHandle()
        recording = self.recording_of(name)
        call_id = recording.started(name, arguments, id=id, default_arguments=default_arguments)
        try:
            yield call
        except BaseException as error:
            recording.failed(call_id, error)
            raise
        if call.error is not None:
            recording.failed(call_id, call.error)
        else:
            recording.finished(call_id, call.result)

    @overload
    def tool(self, function: Callable[P, R]) -> Callable[P, R]: ...

    @overload
    def tool(self, *, name: str) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def tool(self, function: Callable[..., Any] | None = None, *, name: str = "") -> Callable[..., Any]:
        """Decorator: record each call of a function or coroutine function, under its own name or `name`.

        Arguments are recorded by name as passed, without `self` and `cls`. One that has its parameter's default is
        marked, because many frameworks fill in what the model left out. The result None is recorded as `null`. Raises
        TypeError for generators, which can use `call` inside, and for callables without a name, such as partial
        functions, if `name` is missing.
        """
        if function is None:
            return lambda decorated: self._decorated(decorated, name)
        return self._decorated(function, name)

    def _decorated(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        tool_name = name or getattr(function, "__name__", "")
        if not tool_name:
            raise TypeError(f"{function!r} has no name; pass one: recorder.tool(name=...)")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"tool {tool_name!r} is a generator; record it inside, with 'with recorder.call(...)'")
        parameters = inspect.signature(function)
        defaults = {
            name: getattr(parameter.default, "default", parameter.default)  # that of a pydantic `Field`
            for name, parameter in parameters.parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self.recording_of(tool_name) is NO_RECORDING:
                return function(*args, **kwargs)
            with ExitStack() as stack:
                named = _by_name(parameters, args, kwargs)
                filled_in = [name for name in defaults if name in named and _equal(named[name], defaults[name])]
                call = stack.enter_context(self.call(tool_name, named, default_arguments=filled_in))
                value = function(*args, **kwargs)
                if inspect.iscoroutine(value):
                    return _record_coroutine(value, call, stack.pop_all())
                call.result = _returned(value)
            return value

        @functools.wraps(function)
        async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
            return await wrapper(*args, **kwargs)

        is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
        return async_wrapper if is_async else wrapper


_followed: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def follow_into_threads() -> None:
    """Have functions in the default executor of the running event loop see the context of their caller.

    `loop.run_in_executor` does not pass it on, unlike `asyncio.to_thread`. A loop without a default executor, and one
    that does not show its own (uvloop), gets a thread pool; executors of another kind stay as they are.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if loop in _followed:
        return
    _followed.add(loop)
    executor = getattr(loop, "_default_executor", None)
    if executor is None:
        executor = ThreadPoolExecutor(thread_name_prefix="asyncio")
        loop.set_default_executor(executor)
    if isinstance(executor, ThreadPoolExecutor):
        submit = executor.submit
        vars(executor)["submit"] = lambda *call, **options: submit(copy_context().run, *call, **options)


def _enabled_by_environment() -> bool:
    value = os.environ.get(ENVIRONMENT_FLAG, "")
    try:
        return _FLAG_VALUES[value.strip().lower()]
    except KeyError:
        raise ValueError(f"{ENVIRONMENT_FLAG} is {value!r}; expected on or off") from None


async def _record_coroutine(work: Coroutine[Any, Any, Any], call: CallHandle, stack: ExitStack) -> Any:
    with stack:
        value = await work
        call.result = _returned(value)
    return value


def _returned(value: Any) -> Any:
    return "null" if value is None else value


def _equal(value: Any, default: Any) -> bool:
    return value is default or plain_text(value) == plain_text(default)


def _by_name(parameters: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        given = parameters.bind(*args, **kwargs).arguments
    except TypeError:  # the call of the function raises the same error
        return kwargs
    named: dict[str, Any] = {}
    for name, value in given.items():
        if parameters.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif name not in ("self", "cls"):
            named[name] = value
    return named
