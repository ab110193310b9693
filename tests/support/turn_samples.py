"""Turns in the JSON form of /api/turns, made up as tests need them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

BEGIN = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    """RFC 3339, that number of seconds after the beginning."""
    return (BEGIN + timedelta(seconds=seconds)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def call(name: str, /, *, result: str | None = "ok", error: str | None = None, **arguments: Any) -> dict[str, Any]:
    return {
        "id": "",
        "name": name,
        "arguments": arguments,
        "result": result,
        "error": error,
        "source": "a2a_protocol",
    }


def result(evaluator: str, score: float | None, *, threshold: float | None = 1.0, **fields: Any) -> dict[str, Any]:
    """What an evaluator said; passed or failed by the threshold, skipped without a score."""
    passed = None if score is None or threshold is None else score >= threshold
    status = {True: "passed", False: "failed", None: "scored" if score is not None else "skipped"}[passed]
    return {
        "evaluator": evaluator,
        "score": score,
        "passed": passed,
        "threshold": threshold,
        "reason": f"{evaluator} said so",
        "details": {},
        "status": status,
        "label": None,
        "scale": [0.0, 1.0],
        "version": "1",
        **fields,
    }


def turn(
    turn_id: str,
    user: str = "Where is my order?",
    calls: Sequence[dict[str, Any]] = (),
    evaluations: Sequence[dict[str, Any]] = (),
    *,
    case: str | None = None,
    conversation: str | None = None,
    start: float = 0.0,
    seconds: float = 1.0,
    **fields: Any,
) -> dict[str, Any]:
    """A turn that is done; its conversation is its own unless another is named."""
    return {
        "turn_id": turn_id,
        "run": "nightly",
        "case_id": case,
        "conversation_id": f"conversation-{turn_id}" if conversation is None else conversation,
        "task_id": f"task-{turn_id}",
        "agent": "http://agent.example",
        "binding": "JSONRPC",
        "protocol_version": "1.0",
        "state": "TASK_STATE_COMPLETED",
        "status": "done",
        "user_text": user,
        "response_text": "Here you are.",
        "started_at": at(start),
        "first_event_at": at(start + seconds / 3),
        "ended_at": at(start + seconds),
        "trace_id": "0" * 32,
        "tool_calls": list(calls),
        "capture": {
            "declared": True,
            "requested_by_client": False,
            "snapshot_seen": False,
            "sources": {"a2a_protocol": len(calls)},
            "matched_by_id": 0,
            "matched_by_signature": 0,
            "protocol_only": len(calls),
            "trace_only": 0,
        },
        "findings": [],
        "evaluations": list(evaluations),
        **fields,
    }


def finding(code: str, severity: str = "warning", message: str = "something odd") -> dict[str, str]:
    return {"code": code, "severity": severity, "message": message, "where": ""}


def many_turns(count: int, text: int = 300) -> Iterator[dict[str, Any]]:
    """A run of conversations of two turns with two calls each; every tenth turn fails. `text` characters a text."""
    for index in range(count):
        good = index % 10 != 0
        reason = "1 of 2 expected calls made with the expected arguments: call 2 (refund) differs from expected call 2"
        yield turn(
            f"{index:032x}",
            f"Question {index}: please look up order ORD-{index} and pay it back. " + "lorem ipsum " * (text // 24),
            [
                call(
                    "lookup_order", order_id=f"ORD-{index}", result='{"status": "shipped", "lines": []}' * (text // 40)
                ),
                call("refund", order_id=f"ORD-{index}", amount=12.5 if good else 99, currency="EUR"),
            ],
            [
                result("tool_trajectory", 1.0 if good else 0.5, reason=reason),
                result("tool_call_args", 1.0 if good else 0.5, reason=reason),
                result("tool_error", 1.0, reason="2 of 2 calls succeeded."),
            ],
            case=f"case-{index // 2}",
            conversation=f"conversation-{index // 2}",
            start=index * 2.0,
            response_text=f"Answer {index}. " + "dolor sit amet " * (text // 15),
        )
