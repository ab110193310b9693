"""`send`: one message to an agent, and what it does."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from a2a_tool_capture.approvals import Answer, Part, file_part
from a2a_tool_capture.dialect import DIALECT_NOT_READ
from a2a_tool_capture.models import CapturedTurn
from jinja2 import PackageLoader
from tool_call_evaluators.report.templating import plain_text
from tool_call_evaluators.texts import printable
from tool_call_evaluators.visibility import Calls, Visibility, visibility_of

from ...errors import ConfigError
from ...runs.drive import AgentOptions, agent_client

_TEMPLATES = PackageLoader(__package__, "")
MAX_FILE_BYTES = 10_000_000
"""Of all files of a message: it is sent as JSON, in memory."""


def message_of(text: str | None, data: Iterable[str], files: Iterable[str]) -> list[Part]:
    """The parts of a message; `data` is JSON, `files` are paths. Raises ConfigError for what cannot be read."""
    return [*([{"text": text}] if text else []), *map(_data, data), *_files(files)]


def _data(text: str) -> Part:
    try:
        return {"data": json.loads(text)}
    except ValueError as error:
        raise ConfigError(f"--data: not JSON: {error}") from None


def _files(paths: Iterable[str]) -> Iterator[Part]:
    """File parts with the media types of the suffixes."""
    room = MAX_FILE_BYTES
    for path in map(Path, paths):
        try:
            with path.open("rb") as opened:
                content = opened.read(room + 1)
        except OSError as error:
            raise ConfigError(f"--file: {path} cannot be read: {error.strerror}") from None
        room -= len(content)
        if room < 0:
            raise ConfigError(f"--file: {path}: the files of a message may have {MAX_FILE_BYTES:,} bytes in all")
        yield file_part(path.name, content)


async def send_message(
    agent: AgentOptions,
    message: Sequence[Part] | Answer,
    *,
    conversation_id: str | None = None,
    task_id: str | None = None,
) -> CapturedTurn:
    """The turn that a message led to. An answer is to the question with which the task waits.

    Raises AgentUnreachableError, AgentError, TurnTimeoutError, ConfigError.
    """
    async with agent_client(agent) as (client, _):
        return await client.send(message, context_id=conversation_id, task_id=task_id)


def turn_text(turn: CapturedTurn) -> str:
    """The tool calls, the response, and a line about the turn as a whole; nothing in it can steer a terminal."""
    unseen = _visibility(turn).calls is Calls.UNKNOWN and not turn.tool_calls
    return printable(plain_text("turn.txt", _TEMPLATES, turn=turn, unseen=unseen, join=shlex.join))


def turn_json(turn: CapturedTurn) -> dict[str, Any]:
    """The turn for programs: names as in /api/turns."""
    return {
        "user_text": turn.user_text,
        "response_text": turn.text,
        "state": turn.state,
        "conversation_id": turn.context_id,
        "task_id": turn.task_id,
        "binding": turn.binding,
        "protocol_version": turn.protocol_version,
        "declared": turn.declared,
        "duration_ms": round((turn.ended_at - turn.started_at).total_seconds() * 1000),
        "tool_calls": [call.to_dict() for call in turn.tool_calls],
        **_visibility(turn).to_dict(),
        **({"user_parts": turn.user_parts} if turn.user_parts else {}),
        **({"approvals": [call.to_dict() for call in turn.waiting]} if turn.waiting else {}),
        "findings": [finding.to_dict() for finding in turn.findings],
    }


def _visibility(turn: CapturedTurn) -> Visibility:
    is_shown = turn.declared and all(finding.code != DIALECT_NOT_READ for finding in turn.findings)
    return visibility_of(turn.state, len(turn.tool_calls), turn.findings, "extension" if is_shown else "")
