"""The traceability extension of a2a-samples (extensions/traceability/v1): a trace in the metadata of a message or an
artifact, or in a data part: steps, each a call of a tool, or of another agent with a trace of its own. It has no
results of tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..canonical import with_whole_numbers
from ..dialect import WHOLE, CallPart, Dialect, MalformedPartError, Placed
from ..json_limits import too_deep
from ..json_values import plain_text
from ..models import ToolCallSource

_KEY = "github.com/a2aproject/a2a-samples/extensions/traceability/v1/traceability"

_TOOL, _AGENT = ("TOOL", 2, "CALL_TYPE_ENUM_TOOL"), ("AGENT", 1, "CALL_TYPE_ENUM_AGENT")
_HOST = ("HOST", "CALL_TYPE_ENUM_HOST")
"""Work of the agent itself, which is no call."""


def _read(holder: Mapping[str, Any]) -> Iterator[Placed]:
    """The calls in the traces of a message or an artifact. One trace may be there twice: a step counts once."""
    marked, parts = _object(holder.get("metadata")).get(_KEY), holder.get("parts")
    data = [part.get("data") for part in (parts if isinstance(parts, list) else ()) if isinstance(part, dict)]
    traces = [one for one in data if isinstance(one, dict) and "steps" in one]
    found: dict[str, CallPart] = {}
    for trace in [marked, *traces] if marked else traces:
        try:
            for one in _traced_calls(trace):
                found[one.id or f"#{len(found)}"] = one
        except MalformedPartError as problem:
            yield WHOLE, MalformedPartError(f"skipped: {problem}, in a trace of dialect 'traceability'", problem.code)
    yield from ((WHOLE, one) for one in found.values())


def _traced_calls(trace: Any) -> Iterator[CallPart]:
    """The calls of tools and of agents, each of an agent before those in its own trace.

    The extension's own sample has the fields of the invocation in the step itself.
    """
    steps = _object(trace).get("steps")
    if not isinstance(steps, list) or too_deep(steps) or not all(isinstance(step, dict) for step in steps):
        raise MalformedPartError("'steps' is not a list of objects")
    for step in steps:
        kind, action = _either(step, "call_type", "callType"), _object(_either(step, "step_action", "stepAction"))
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
            raise MalformedPartError(f"a step of a kind that is not known: {kind!r:.80}", "unknown_kind")
        if not isinstance(name, str) or not name:
            raise MalformedPartError(f"a step names no tool or agent, but {name!r:.80}")
        if arguments is not None and not isinstance(arguments, dict):
            raise MalformedPartError(
                f"the arguments of {name!r:.80} are a {type(arguments).__name__}, expected an object"
            )
        error, step_id = step.get("error"), _either(step, "step_id", "stepId")
        yield CallPart(
            name,
            step_id if isinstance(step_id, str) else "",
            bool(error),
            with_whole_numbers(arguments),
            error=plain_text(error) if error else None,
        )
        below = _either(invoked, "response_trace", "responseTrace")
        if isinstance(below, dict) and "steps" in below:
            yield from _traced_calls(below)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _either(holder: Mapping[str, Any], *names: str) -> Any:
    return next((holder[name] for name in names if holder.get(name) is not None), None)


DIALECT = Dialect("traceability", ToolCallSource.TRACEABILITY, _KEY, _read)
