"""Which findings make the tool calls of a turn unknown: one table, for every source of calls and every reader of turns.

A reader that meets something it cannot read as calls, and cannot rule out to be one, reports a finding with one of
these codes. So does one that finds a call gone that an earlier report had. Nothing else decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .models import Finding, Severity

CALLS_UNKNOWN_BY: Mapping[str, str] = {
    "malformed_entry": "an entry of a list of calls was skipped",
    "calls_not_a_list": "the calls of an artifact are not a list",
    "uri_not_listed": "the artifact of the calls does not list the extension",
    "calls_not_on_artifact": "calls are where the extension does not put them",
    "malformed_event": "an event could not be read",
    "malformed_response": "a response could not be read",
    "unknown_event": "an event is of a kind that is not known",
    "unknown_version": "the calls are of a version of the extension that is not known",
    "unknown_kind": "a part, a wrapper or an entry is of a kind that is not known",
    "content_withheld": "what may have held calls was withheld, cut or dropped",
    "dropped_by_snapshot": "a call that was reported is absent from a later report",
    "too_many_calls": "there are more calls than are kept",
    "calls_not_recorded": "the agent says that it did not record all calls",
    "calls_missed": "reports of calls were missed",
    "trace_contested": "traces with calls may be of this turn or of another",
    "missed_events": "changes of the task came with no event",
    "capture_error": "capture failed, or could not read what another proxy had captured",
}
"""Code of a finding, and what it says; not if its severity is `info`: a later report has what was not read."""


def calls_unknown_by(findings: Iterable[Finding]) -> Finding | None:
    """The first of `findings` that makes the calls unknown, in the order of the table; None without any."""
    by_code = {one.code: one for one in findings if one.severity is not Severity.INFO}
    return next((by_code[code] for code in CALLS_UNKNOWN_BY if code in by_code), None)
