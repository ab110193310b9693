"""The text of a failure is the most specific one, without a traceback."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from a2a_tool_capture.spans.content import NOTHING, ToolOutcome
from a2a_tool_capture.spans.model import STATUS_OK
from a2a_tool_capture.spans.observations import Failure, failure
from golden.spans.building import a_span, exception

TRACEBACK = "Traceback (most recent call last):\n  File x\nValueError: no such city"


def of(outcome: ToolOutcome = NOTHING, says_failed: bool = False, **span: Any) -> Failure | None:
    return failure(a_span(1, span.pop("attributes", None), **span), outcome, says_failed)


def test_no_error_no_failure() -> None:
    assert of(events=(exception("handled"),), outcome=ToolOutcome("Sunny")) is None


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ({"error": "", "events": (exception("no such city"),)}, (0, "no such city")),
        ({"error": "x", "events": (exception("first"), exception("last"))}, (0, "last")),
        ({"error": "", "events": (exception(f"no such city{TRACEBACK}"),)}, (0, "no such city")),
        ({"error": "", "events": (exception(TRACEBACK),)}, (0, "ValueError: no such city")),
        ({"error": "no such city"}, (1, "no such city")),
        ({"error": f"no such city\n{TRACEBACK}"}, (1, "no such city")),
        ({"error": "no such city", "events": (exception(""),)}, (1, "no such city")),
        ({"error": "Error", "outcome": ToolOutcome("no such city")}, (2, "no such city")),
        (
            {"error": "TIMEOUT", "attributes": {"error.type": "timeout"}, "outcome": ToolOutcome("slow")},
            (2, "slow"),
        ),
        (
            {"error": "ValueError: ", "events": (exception(""),), "outcome": ToolOutcome("bad")},
            (2, "bad"),
        ),
        ({"error": "", "attributes": {"error.type": "tool_error"}}, (3, "tool_error")),
        ({"attributes": {"error.type": "tool_error"}}, (3, "tool_error")),
        ({"error": "", "events": (exception("", "pkg.RetryError"),)}, (4, "pkg.RetryError")),
        ({"error": ""}, (5, "error")),
        ({"error": "failed"}, (5, "failed")),
        ({"outcome": ToolOutcome("no such city", failed=True)}, (2, "no such city")),
        ({"says_failed": True}, (5, "error")),
        ({"attributes": {"error.type": "x", "error.message": "why"}}, (0, "why")),
    ],
)
def test_the_most_telling_text(span: dict[str, Any], expected: tuple[int, str]) -> None:
    assert of(**span) == expected


def test_an_ok_status_does_not_undo_an_error_type() -> None:
    span = replace(a_span(1, {"error.type": "tool_error"}), status_code=STATUS_OK)

    assert failure(span, NOTHING, says_failed=False) == (3, "tool_error")
