"""The one sentence that says why a tool call failed, from the places where spans keep it."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from .content import ToolOutcome
from .literals import is_placeholder
from .model import STATUS_ERROR, Span

GENERIC = frozenset(
    {
        "",
        "error",
        "tool error",
        "tool_error",
        "failed",
        "failure",
        "unknown",
        "unknown error",
        "_other",
        "internal error",
    }
)
"""Status messages, in lower case, that contain no more than the status itself."""

_TRACEBACK = "Traceback (most recent call last)"
_MESSAGES = ("exception.message", "error.message")


class FailureDetail(IntEnum):
    """How much a string explains about a failure: the lowest is preferred."""

    EXCEPTION = 0
    STATUS = 1
    RESULT = 2
    ERROR_TYPE = 3
    EXCEPTION_TYPE = 4
    NOTHING = 5


class Failure(NamedTuple):
    detail: FailureDetail
    text: str


def failure(span: Span, outcome: ToolOutcome, says_failed: bool) -> Failure | None:
    """Why the call that `span` recorded failed; None where it did not.

    It failed where the status is ERROR, `error.type` is set, or its content says so (`says_failed`,
    `outcome.failed`). The text is the exception's message, else the status message unless generic, else the
    result, else `error.type`; never with a traceback.
    """
    error_type = span.attributes.get("error.type")
    if span.status_code != STATUS_ERROR and not error_type and not says_failed and not outcome.failed:
        return None
    error_type = error_type if isinstance(error_type, str) else ""
    exceptions = [event.attributes for event in reversed(span.events) if event.name == "exception"]
    for attributes in (*exceptions, span.attributes):
        for key in _MESSAGES:
            if text := _message(attributes.get(key)):
                return Failure(FailureDetail.EXCEPTION, text)
    exception_type = next((text for event in exceptions if (text := _message(event.get("exception.type")))), "")
    status = _message(span.status_message)
    if status.casefold() not in GENERIC and not _is_type(status, error_type) and not _is_type(status, exception_type):
        return Failure(FailureDetail.STATUS, status)
    if outcome.text:
        return Failure(FailureDetail.RESULT, outcome.text)
    if error_type:
        return Failure(FailureDetail.ERROR_TYPE, error_type)
    if exception_type:
        return Failure(FailureDetail.EXCEPTION_TYPE, exception_type)
    return Failure(FailureDetail.NOTHING, status or "error")


def _is_type(status: str, type_name: str) -> bool:
    """Whether a status message is but an error's type, perhaps with the colon after which its message would stand."""
    return status.rstrip(":").casefold() in (type_name.casefold(), type_name.rpartition(".")[2].casefold())


def _message(value: object) -> str:
    """Text before an appended traceback, or the last line of text that is nothing but one."""
    if not isinstance(value, str) or is_placeholder(value):
        return ""
    before, _, traceback = value.partition(_TRACEBACK)
    return before.strip() or traceback.strip().rpartition("\n")[2].strip()
