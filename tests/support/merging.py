"""Feeding a `TaskMerger` with the events of a task."""

from __future__ import annotations

from typing import Any

from a2a_tool_capture import TaskMerger
from a2a_tool_capture.merge import ContinuedMerger
from a2a_tool_capture.models import calls_unknown_by

TURN: dict[str, Any] = {}
"""In place of an event: the user's next message."""


def merged(*fed: Any, **options: Any) -> ContinuedMerger:
    """The merger after these events, made with `options`."""
    merger = ContinuedMerger(**options)
    for event in fed:
        if event is TURN:
            merger.begin_turn()
        else:
            merger.feed(event)
    return merger


def codes(merger: TaskMerger) -> list[str]:
    """Those of its findings."""
    return [finding.code for finding in merger.findings]


def unknown_by(merger: TaskMerger) -> str | None:
    """The code of the finding that makes the calls unknown; None without any."""
    finding = calls_unknown_by(merger.findings)
    return finding.code if finding else None
