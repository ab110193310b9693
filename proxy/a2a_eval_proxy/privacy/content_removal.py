"""Removes the content of turns and results for `--no-content`: names, structure and scores remain. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from a2a_tool_capture import ToolCall
from a2a_tool_capture.wire import TASK_STATES

from ..turn import Turn

_LENGTH = re.compile(r"\[not kept: \d+ characters\]")
_NAME = re.compile(r"[A-Za-z_$@][\w$.-]{0,63}", re.ASCII)

_KEPT = ("judge", "unproven")
"""Keys in the details of a result: a judge's usage, and the names of tools of which no call was seen."""


def without_content(turn: Turn) -> Turn:
    """Returns the turn with the names of its calls, the types of their arguments and the lengths of its texts."""
    return replace(
        turn,
        state=state_without_content(turn.state),
        user_text=length_only(turn.user_text),
        response_text=length_only(turn.response_text),
        tool_calls=[_call(call) for call in turn.tool_calls],
        findings=[replace(finding, message=length_only(finding.message)) for finding in turn.findings],
        simulated_user=turn.simulated_user and user_without_content(turn.simulated_user),
        spans=None,
        world=None,
        user_parts=None,
        approvals=turn.approvals
        and [{**call, "arguments": _types(call["arguments"] or {})} for call in turn.approvals],
    )


def user_without_content(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the record of a simulated user (JSON form) with the lengths of its texts."""
    if "replies" not in record:
        return dict(record)
    fault = record["fault"] and {**record["fault"], "message": length_only(record["fault"]["message"])}
    return {**record, "replies": [length_only(text) for text in record["replies"]], "fault": fault, "redacted": True}


def state_without_content(state: str | None) -> str | None:
    """Returns a state that A2A defines. Any other state is text of the agent and is removed."""
    return state if state is None or state in TASK_STATES else "[redacted]"


def lacks_content(user_text: str) -> bool:
    """Whether a turn with this text was stored without content and so cannot be scored."""
    return _LENGTH.fullmatch(user_text) is not None


def result_without_content(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an evaluation result (JSON form) without its reason, and without details except those of `_KEPT`."""
    details = {key: value for key, value in result["details"].items() if key in _KEPT}
    return {**result, "reason": "", "details": details}


_TYPES = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", type(None): "null"}


def _types(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The JSON types of arguments; names that are not names become "key", "key 2"…"""
    types: dict[str, str] = {}
    for key, value in arguments.items():
        name = key if _NAME.fullmatch(key) else free_key("key", types)
        types[name] = _TYPES.get(type(value), "object")
    return types


def free_key(key: str, taken: Mapping[str, Any]) -> str:
    """Returns `key`, or the first of `key 2`, `key 3`... that is not taken."""
    number, free = 1, key
    while free in taken:
        number += 1
        free = f"{key} {number}"
    return free


def _call(call: ToolCall) -> ToolCall:
    return replace(
        call,
        arguments=None if call.arguments is None else _types(call.arguments),
        result=None if call.result is None else length_only(call.result),
        error=None if call.error is None else length_only(call.error),
        default_arguments=(),
    )


def length_only(text: str) -> str:
    """Returns how long the text is, in place of the text."""
    return text if _LENGTH.fullmatch(text) else f"[not kept: {len(text)} characters]"
