"""Reads tool calls of agents without the extension from what their framework sends instead. Sans-io.

google-adk and kagent put each call and each response into a data part of a message or an artifact; the part's metadata
names its type: `{"data": {"id", "name", "args"}, "metadata": {"adk_type": "function_call"}}`. Messages
travel in status updates and, once the next one has arrived, in the history of the task, which holds nearly all of them
in the response to a request that does not stream.

The traceability extension of a2a-samples (extensions/traceability/v1) has a trace in the metadata of a message or an
artifact, or in a data part of an artifact: steps, each a call of a tool, or of another agent with a trace of its own.
It has no results of tools.

This module neither negotiates nor filters: clients see these parts whether or not the proxy reads them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from .canonical import with_whole_numbers
from .json_limits import too_deep
from .json_values import plain_text
from .models import Finding, Severity, ToolCall, ToolCallSource
from .reconciliation import reconcile
from .same_call import finished, same_call
from .wire import timeline_of

MAX_CALL_PARTS = 20_000
"""Maximum number of calls and responses kept per task."""

CODE_EXECUTION = "code_execution"
"""Tool name for code that a model runs; the wire has none."""

ASKS_THE_USER = frozenset({"adk_request_confirmation", "adk_request_credential", "adk_request_input"})
"""Function calls with which google-adk asks the user; they are not tool calls."""


TRACE_KEY = "github.com/a2aproject/a2a-samples/extensions/traceability/v1/traceability"


@dataclass(frozen=True, slots=True)
class Dialect:
    """A format of tool calls; `type_key` is the metadata key that names a part's type, or that the trace has."""

    name: str
    source: ToolCallSource
    type_key: str


DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect("adk", ToolCallSource.ADK, "adk_type"),
        Dialect("kagent", ToolCallSource.KAGENT, "kagent_type"),
        Dialect("traceability", ToolCallSource.TRACEABILITY, TRACE_KEY),
    )
}
"""The supported dialects by name."""

DIALECT_NOT_READ = "dialect_not_read"
"""The finding of a turn without calls whose answer has parts of a dialect that is not read."""


class DialectMark(NamedTuple):
    """`key` occurs in the bytes of an answer in the dialect: the key that names the kind of a part, as JSON."""

    dialect: str
    key: bytes
    finding: Finding


DIALECT_MARKS = tuple(
    DialectMark(
        dialect.name,
        f'"{dialect.type_key}"'.encode(),
        Finding(
            DIALECT_NOT_READ,
            f"parts of the answer are marked {dialect.type_key!r}, as those of tool calls are; "
            f"--dialects {dialect.name} reads them",
            Severity.INFO,
            "response",
        ),
    )
    for dialect in DIALECTS.values()
)


class _CallPart(NamedTuple):
    """The content of one part: the start of a call or, if `ends`, its outcome."""

    name: str
    id: str
    ends: bool
    arguments: Mapping[str, Any] | None = None
    result: str | None = None
    error: str | None = None
    source: ToolCallSource = ToolCallSource.ADK
    seen_at: float | None = None
    streams: bool = False
    """Whether it is no more than the beginning of the arguments."""

    def is_again(self, other: _CallPart) -> bool:
        """Whether both are about the same call, by id and name."""
        return (self.id, self.name, self.ends) == (other.id, other.name, other.ends)


class FunctionOutcome(NamedTuple):
    """The result or the error of a function as text; the other is None."""

    result: str | None
    error: str | None


def function_outcome(response: Any) -> FunctionOutcome:
    """The outcome in a function response of google-adk: `{"result": x}`, `{"error": text}`, `isError`, or an object."""
    failed = False
    if isinstance(response, dict):
        failed = response.get("isError") is True
        if response.keys() == {"error"} and isinstance(response["error"], str):
            failed, response = True, response["error"]
        elif "result" in response and response.keys() <= {"result", "isError"}:
            response = response["result"]
    text = plain_text(response)
    return FunctionOutcome(None, text) if failed else FunctionOutcome(text, None)


class _MalformedError(Exception):
    """A part is invalid; the message names the error."""

    code = "malformed_entry"


class _UnknownKindError(_MalformedError):
    """It may be valid, of a kind that later versions have."""

    code = "unknown_kind"


class DialectReader:
    """Collects the calls of one task from its events. Never raises on JSON-like input; memory is bounded.

    Repeated calls count once: the same id is one call, a repeated message or artifact replaces the earlier one, and
    calls in both messages and artifacts are matched by id, then by name and arguments. Task objects do not remove
    calls, because servers truncate histories. A response without a call is a call with unknown arguments.

    Raises KeyError for a name that is not in `DIALECTS`.
    """

    def __init__(self, names: Iterable[str]) -> None:
        dialects = [DIALECTS[name] for name in names]
        self._dialects = [dialect for dialect in dialects if dialect.type_key != TRACE_KEY]
        self._reads_traces = len(self._dialects) < len(dialects)
        self._messages: dict[str, list[_CallPart]] = {}
        self._artifacts: dict[str, list[_CallPart]] = {}
        self._count = 0
        self._now: float | None = None
        self._unfinished: dict[str, None] = {}
        self.before: list[ToolCall] = []
        """The calls before the latest event, if that does not repeat all that it replaces."""

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Every call so far in the order of first appearance; calls found only in artifacts come last."""
        return reconcile(_calls(self._messages.values()), _calls(self._artifacts.values())).tool_calls

    @property
    def unfinished(self) -> list[str]:
        """Names of calls whose arguments began to stream since `begin_turn`, and of which no whole report came."""
        return list(self._unfinished)

    def begin_turn(self) -> None:
        """What is unfinished belongs to earlier turns."""
        self._unfinished.clear()

    def feed(self, event: Mapping[str, Any], now: float | None = None) -> list[Finding]:
        """Read one v1.0 StreamResponse (`TaskMerger.feed`); returns findings about it."""
        self._now, self.before = now, []
        findings: list[Finding] = []
        task = _object(event.get("task"))
        for message in _list(task.get("history")):
            self._message(message, findings)
        for entry in timeline_of(task):
            self._message(entry.get("message"), findings)
            self._message(_object(entry.get("status")).get("message"), findings)
        self._message(_object(task.get("status")).get("message"), findings)
        for artifact in _list(task.get("artifacts")):
            self._artifact(artifact, False, findings)
        self._message(_object(_object(event.get("statusUpdate")).get("status")).get("message"), findings)
        self._message(event.get("message"), findings)
        update = _object(event.get("artifactUpdate"))
        self._artifact(update.get("artifact"), update.get("append") is True, findings)
        return findings

    def _message(self, message: Any, findings: list[Finding]) -> None:
        if isinstance(message, dict) and message.get("role") not in ("ROLE_USER", "user"):
            message_id = message.get("messageId")
            key = message_id if isinstance(message_id, str) and message_id else f"#{len(self._messages)}"
            self._keep(self._messages, key, self._read(message, f"message {key!r}", findings), findings)

    def _artifact(self, artifact: Any, append: bool, findings: list[Finding]) -> None:
        if isinstance(artifact, dict):
            key = str(artifact.get("artifactId", ""))
            parts = self._read(artifact, f"artifact {key!r}", findings)
            self._keep(self._artifacts, key, (self._artifacts.get(key, []) if append else []) + parts, findings)

    def _keep(
        self, kept: dict[str, list[_CallPart]], key: str, parts: list[_CallPart], findings: list[Finding]
    ) -> None:
        replaced = kept.get(key, [])
        earlier = len(replaced)
        if not self.before and not {one[:3] for one in replaced} <= {one[:3] for one in parts}:
            self.before = self.tool_calls
        parts[:earlier] = [
            new._replace(seen_at=old.seen_at) if new.is_again(old) else new
            for new, old in zip(parts, replaced, strict=False)
        ]
        room = MAX_CALL_PARTS - self._count + earlier
        if len(parts) > room:
            message = f"more than {MAX_CALL_PARTS} calls and responses; further ones are dropped"
            findings.append(Finding("too_many_calls", message))
            parts = parts[:room]
        if parts:
            kept[key] = parts
        else:
            kept.pop(key, None)
        self._count += len(parts) - earlier

    def _read(self, holder: Mapping[str, Any], where: str, findings: list[Finding]) -> list[_CallPart]:
        parts = self._trace_parts(holder, where, findings) if self._reads_traces else []
        for number, part in enumerate(_list(holder.get("parts"))):
            metadata = part.get("metadata") if isinstance(part, dict) else None
            if not isinstance(metadata, dict):
                continue
            for dialect in self._dialects:
                kind = metadata.get(dialect.type_key)
                if not kind or kind == "thought" or "data" not in part:
                    continue
                read = _READERS.get(kind) if isinstance(kind, str) else None
                if read is None:
                    message = f"it may be a call, of a kind of dialect {dialect.name!r} that is not known: {kind!r:.80}"
                    findings.append(Finding("unknown_kind", message, Severity.WARNING, f"{where}, part {number}"))
                    break
                try:
                    one = read(_data(part))
                except _MalformedError as problem:
                    message = f"skipped: {problem}, in a {kind} of dialect {dialect.name!r}"
                    findings.append(Finding("malformed_entry", message, Severity.WARNING, f"{where}, part {number}"))
                    break
                if one is not None and one.streams:
                    self._unfinished[one.name] = None
                elif one is not None:
                    self._unfinished.pop(one.name, None)
                    parts.append(one._replace(source=dialect.source, seen_at=self._now))
                break
        return parts

    def _trace_parts(self, holder: Mapping[str, Any], where: str, findings: list[Finding]) -> list[_CallPart]:
        """The calls in the traces of a message or an artifact. One trace may be there twice: a step counts once."""
        marked = _object(holder.get("metadata")).get(TRACE_KEY)
        data = [part.get("data") for part in _list(holder.get("parts")) if isinstance(part, dict)]
        traces = [one for one in data if isinstance(one, dict) and "steps" in one]
        found: dict[str, _CallPart] = {}
        for trace in [marked, *traces] if marked else traces:
            try:
                for one in _traced_calls(_object(trace)):
                    found[one.id or f"#{len(found)}"] = one._replace(seen_at=self._now)
            except _MalformedError as problem:
                message = f"skipped: {problem}, in a trace of dialect 'traceability'"
                findings.append(Finding(problem.code, message, Severity.WARNING, where))
        return list(found.values())


# ── traces ──────────────────────────────────────────────────────────────────────────────────────────────────

_TOOL, _AGENT = ("TOOL", 2, "CALL_TYPE_ENUM_TOOL"), ("AGENT", 1, "CALL_TYPE_ENUM_AGENT")
_HOST = ("HOST", "CALL_TYPE_ENUM_HOST")
"""Work of the agent itself, which is no call."""


def _steps(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    steps = trace.get("steps")
    if not isinstance(steps, list) or too_deep(steps) or not all(isinstance(step, dict) for step in steps):
        raise _MalformedError("'steps' is not a list of objects")
    return steps


def _traced_calls(trace: Mapping[str, Any]) -> Iterator[_CallPart]:
    """The calls of tools and of agents, each of an agent before those in its own trace.

    The extension's own sample has the fields of the invocation in the step itself.
    """
    for step in _steps(trace):
        kind = _either(step, "call_type", "callType")
        action = _object(_either(step, "step_action", "stepAction"))
        if kind in _TOOL:
            invoked = _object(_either(action, "tool_invocation", "toolInvocation")) or step
            name, arguments = _either(invoked, "tool_name", "toolName", "name"), invoked.get("parameters")
        elif kind in _AGENT:
            invoked = _object(_either(action, "agent_invocation", "agentInvocation")) or step
            name = _either(invoked, "agent_name", "agentName", "name", "agent_url", "agentUrl")
            arguments = invoked.get("requests")
        elif kind in _HOST:
            continue
        else:
            raise _UnknownKindError(f"a step of a kind that is not known: {kind!r:.80}")
        if not isinstance(name, str) or not name:
            raise _MalformedError(f"a step names no tool or agent, but {name!r:.80}")
        if arguments is not None and not isinstance(arguments, dict):
            raise _MalformedError(f"the arguments of {name!r:.80} are a {type(arguments).__name__}, expected an object")
        known = None if arguments is None else with_whole_numbers(arguments)
        error = step.get("error")
        step_id = _either(step, "step_id", "stepId")
        yield _CallPart(
            name,
            step_id if isinstance(step_id, str) else "",
            bool(error),
            known,
            error=plain_text(error) if error else None,
            source=ToolCallSource.TRACEABILITY,
        )
        below = _either(invoked, "response_trace", "responseTrace")
        if isinstance(below, dict) and "steps" in below:
            yield from _traced_calls(below)


def _either(holder: Mapping[str, Any], *names: str) -> Any:
    return next((holder[name] for name in names if holder.get(name) is not None), None)


# ── parts ───────────────────────────────────────────────────────────────────────────────────────────────────


def _data(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object in a data part, which 0.3's HTTP+JSON wraps in another `data`."""
    data = part.get("data")
    if isinstance(data, dict) and data.keys() == {"data"} and isinstance(data["data"], dict):
        data = data["data"]
    if not isinstance(data, dict):
        raise _MalformedError(f"'data' is a {type(data).__name__}, expected an object")
    if too_deep(data):
        raise _MalformedError("'data' nests too deeply")
    return data


def _call(name_key: str, data: Mapping[str, Any]) -> _CallPart | None:
    """The start of a call; None for google-adk's own calls."""
    name = _text(data, name_key, required=True)
    if name in ASKS_THE_USER:
        return None
    if data.get("partialArgs") or data.get("willContinue") is True:
        return _CallPart(name, _text(data, "id"), False, streams=True)
    arguments = data.get("args")
    if arguments is not None and not isinstance(arguments, dict):
        raise _MalformedError(f"'args' is a {type(arguments).__name__}, expected an object")
    return _CallPart(name, _text(data, "id"), False, with_whole_numbers(arguments or {}))


def _response(name_key: str, data: Mapping[str, Any]) -> _CallPart | None:
    """The outcome of a call; see `function_outcome`."""
    call_id = _text(data, "id")
    name = _text(data, name_key, required=not call_id)
    if name in ASKS_THE_USER:
        return None
    outcome = function_outcome(data.get("response"))
    return _CallPart(name, call_id, True, result=outcome.result, error=outcome.error)


def _code(data: Mapping[str, Any]) -> _CallPart:
    arguments = {key: data[key] for key in ("code", "language") if isinstance(data.get(key), str)}
    return _CallPart(CODE_EXECUTION, _text(data, "id"), False, arguments)


def _code_result(data: Mapping[str, Any]) -> _CallPart:
    outcome, output = _text(data, "outcome"), _text(data, "output")
    if outcome in ("", "OUTCOME_OK"):
        return _CallPart(CODE_EXECUTION, _text(data, "id"), True, result=output)
    return _CallPart(CODE_EXECUTION, _text(data, "id"), True, error=f"{outcome}: {output}" if output else outcome)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], _CallPart | None]] = {
    "function_call": partial(_call, "name"),
    "function_response": partial(_response, "name"),
    "tool_call": partial(_call, "toolType"),  # tools that the model provider runs
    "tool_response": partial(_response, "toolType"),
    "executable_code": _code,
    "code_execution_result": _code_result,
}
"""Reader of each part type."""


def _text(data: Mapping[str, Any], key: str, *, required: bool = False) -> str:
    value = data.get(key)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value):
        raise _MalformedError(f"'{key}' is {value!r:.80}, expected a string")
    return value


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


# ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────


def _calls(groups: Iterable[Sequence[_CallPart]]) -> list[ToolCall]:
    """Calls with their responses, matched by id or, without one, to the first unanswered call of that name."""
    calls: list[ToolCall] = []
    places: dict[str, int] = {}
    unanswered: dict[str, deque[int]] = defaultdict(deque)
    for one in (one for parts in groups for one in parts):
        place = places.get(one.id) if one.id else None
        if not one.id and one.ends and unanswered[one.name]:
            place = unanswered[one.name].popleft()
        if place is not None and one.name in ("", calls[place].name) and not _is_another(calls[place], one):
            calls[place] = _updated(calls[place], one)
        elif one.name:
            if one.id:
                if place is None or one.name == calls[place].name:
                    places[one.id] = len(calls)
            elif not one.ends:
                unanswered[one.name].append(len(calls))
            call = ToolCall(one.name, one.arguments, one.id, one.result, one.error, one.source)
            calls.append(replace(call, first_seen_at=one.seen_at, result_seen_at=one.seen_at if one.ends else None))
    return calls


def _is_another(call: ToolCall, one: _CallPart) -> bool:
    """Whether a call reuses the id of a finished call with other arguments."""
    again = replace(call, arguments=one.arguments, result=None, error=None)
    return not one.ends and finished(call) and not same_call(call, again)


def _updated(call: ToolCall, one: _CallPart) -> ToolCall:
    if one.ends:  # the last response is used: a tool may report progress, or run after a confirmation
        return replace(call, result=one.result, error=one.error, result_seen_at=one.seen_at)
    return replace(call, arguments=one.arguments)
