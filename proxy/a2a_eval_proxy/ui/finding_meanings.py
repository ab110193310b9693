"""What the findings of the proxy mean, in the words of proxy/docs/findings.md; a test compares them."""

from __future__ import annotations

_ROWS = (
    (
        "malformed_entry, repaired_entry, calls_not_a_list",
        "tool calls that violate the extension's schema; over gRPC also those with NaN or over 100,000 values",
    ),
    ("uri_not_listed", "calls on an artifact that does not list the extension's URI; ignored"),
    ("calls_not_recorded", "the agent says that it may have made calls that it did not record, and why"),
    ("calls_not_on_artifact", "calls in the metadata of a message, a task or a status update; ignored"),
    (
        "dialect_not_read",
        "no call was captured, but parts are marked as google-adk or kagent mark tool calls: --dialects reads them",
    ),
    ("dropped_by_snapshot", "a call that was streamed but is not in the final task"),
    ("append_to_unknown_artifact, id_conflict", "chunks or ids that contradict each other"),
    (
        "id_reused",
        "an id is on more than one call of a task, with other arguments, another result or an error; all are kept",
    ),
    ("too_many_calls, text_truncated", "a limit of what is kept was reached"),
    (
        "agent_error, no_answer, malformed_response, malformed_event",
        "the agent sent an error, nothing, or something that is not A2A",
    ),
    ("upstream_unreachable, upstream_timeout, upstream_failed, upstream_cut", "the connection to the agent failed"),
    (
        "not_asked, no_capture",
        "the agent was not asked for calls; no call was captured, and nothing shows that none was made",
    ),
    ("client_gone, incomplete", "the client disconnected before the end; the turn never ended"),
    (
        "earlier_calls_unknown",
        "not all calls of earlier turns of this task are known, so this turn may contain some of them",
    ),
    (
        "process_ended",
        "with --processes: the process that relayed an exchange of the turn ended before the exchange did",
    ),
    (
        "request_too_large, body_too_large, event_too_large, unknown_encoding, undecodable_body, unfinished_event",
        "forwarded without being read",
    ),
    ("count_mismatch", "protocol and trace disagree on how often a call was made"),
    (
        "paired_across_ids",
        "a protocol call and a trace call with different ids count as one: same name and arguments, and no id is on "
        "both sides",
    ),
    ("correlated_by_time, late_spans", "spans were assigned by time; spans arrived after the turn was scored"),
    ("trace_contested", "a trace names no turn, and several turns were open when it began: its calls do not count"),
    ("trace_arguments_unknown, trace_result_cut", "a trace without a tool's arguments or its complete result"),
    ("capture_error", "a bug in the proxy; traffic was not affected"),
    ("redaction_failed", "the turn could not be redacted; none of its content is kept"),
    (
        "push_not_relayed",
        "the webhook of this message is notified past the proxy, because its request could not be changed",
    ),
    (
        "push_unsent, push_withheld",
        "a notification did not reach its webhook, or would have shown it tool calls that could not be removed",
    ),
    (
        "push_timeout",
        "a webhook did not take a notification and those before it within 30 seconds; the agent got a 504",
    ),
    ("push_not_allowed", "a notification was not sent: --push-allow does not allow the address of its webhook"),
    ("push_given_up", "a notification that the proxy repeated was given up: the client did not take it"),
    (
        "push_audience",
        "a notification has a JWT for the address of the proxy: its client may refuse it; --push pass helps",
    ),
)

MEANINGS = {code: meaning for codes, meaning in _ROWS for code in codes.split(", ")}
"""By code. Several codes share a meaning."""
