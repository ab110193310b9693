"""Writes turns and conversations as text for a judge.

The text is JSON, so that no text of an agent or tool can imitate another call, turn or role.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from a2a_tool_capture.models import ToolCall

from ..model import EvalCase, ToolDefinition


def calls_text(calls: Iterable[ToolCall]) -> str:
    """One line per call, numbered from 1."""
    return "\n".join(_json({"call": number, **_call(call)}) for number, call in enumerate(calls, start=1)) or "none"


def turns_text(turns: Iterable[EvalCase], *, reasoning: bool = False) -> str:
    """One line for each turn, numbered from 1, with the agent's reasoning if `reasoning`."""
    return "\n".join(
        _json(
            {
                "turn": number,
                "user": turn.user_text,
                **({"reasoning": turn.reasoning_steps} if reasoning and turn.reasoning_steps else {}),
                **({"tool_calls": [*map(_call, turn.tool_calls)]} if turn.calls_unseen is None else {}),
                "agent": turn.response_text,
            }
        )
        for number, turn in enumerate(turns, start=1)
    )


def turn_data(case: EvalCase, *, reasoning: bool = False) -> dict[str, str]:
    """The parts of a turn by label, in chronological order; missing parts are omitted.

    `reasoning` adds that of the agent: for judges of its way, as it is no evidence for what it claims."""
    data = {"earlier turns": turns_text(case.history, reasoning=reasoning)} if case.history else {}
    if case.user_text is not None:
        data["user message"] = case.user_text
    if reasoning and case.reasoning_steps:
        data["reasoning of the agent"] = "\n".join(map(_json, case.reasoning_steps))
    if case.calls_unseen is None and case.tool_calls:
        data["tool calls"] = calls_text(case.tool_calls)
    if case.response_text is not None:
        data["answer"] = case.response_text
    return data


def whole_data(case: EvalCase, *, reasoning: bool = False) -> dict[str, str]:
    """A conversation as its turns; a turn as its parts."""
    if case.turns is None:
        return turn_data(case, reasoning=reasoning)
    return {"conversation": turns_text(case.turns, reasoning=reasoning)}


def numbered(kind: str, texts: Iterable[str]) -> str:
    """One line for each text: `{"task_1": "..."}`, and so on."""
    return "\n".join(_json({f"{kind}_{number}": text}) for number, text in enumerate(texts, start=1))


def tools_text(tools: Iterable[ToolDefinition]) -> str:
    """One line for each definition of a tool."""
    return "\n".join(_json(tool.to_dict()) for tool in tools)


def _call(call: ToolCall) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": call.name, "arguments": call.arguments, "result": call.result}
    if call.arguments is None:
        entry["arguments"] = "not recorded"
    if call.error is not None:
        entry["error"] = call.error
    return entry


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
