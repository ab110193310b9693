"""The report as JSON for scripts, without the texts of the turns, which are in the export."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..attempts import pass_rates
from ..matching.explain import CallChange
from ..model import EvalResult
from ..outcomes.conversations import ConversationTurn, RunConversation
from ..simulation.record import UserRecord, fault_counts, user_usage
from ..texts import report_json
from .causes import causes
from .figures import attempts, models_usage
from .model import Report, duration, judge_standing


def json_report(report: Report) -> str:
    """One object: `run`, `suite` (`suites` if there are several), the verdict, counts, `unique_errors`, and the
    `conversations` with their turns.

    Turns are named by `turn_id`; their texts and calls are in the export of the run.
    """
    # the reasons, gates and conversations of each suite are among those of the run
    repeated = attempts(report)
    parts = [{"suite": part.title, "passed": part.passed, "counts": part.counts} for part in report.parts]
    summary: dict[str, Any] = {
        "run": report.run,
        "suite": report.suite.name if report.suite else None,
        **({"suites": parts} if parts else {}),
        "agents": report.agents,
        "started_at": report.started_at,
        "ended_at": report.ended_at,
        "turns": len(report.turns),
        "tool_calls": report.tool_call_count,
        "counts": report.counts,
        "noted_conversations": report.noted_count,
        **report.verdict,
        "judges": report.judges,
        "judge_usage": report.usage.to_dict(),
        "models_usage": models_usage(report)[0] or None,
        "simulated_users": {
            "conversations": len(report.users),
            "faults": fault_counts(report.users),
            "usage": user_usage(report.users).to_dict(),
        },
        "unique_errors": list(report.unique_errors),
        "baseline": report.baseline.to_dict() if report.baseline else None,
        "quarantined": report.quarantined,
        "excluded_attempts": report.exclusions,
        "attempts": {"cases": [item.to_dict() for item in repeated], **pass_rates(repeated).to_dict()},
        "causes": [cause.to_dict() for cause in causes(report)],
    }
    # one conversation at a time: as objects, those of a long run take many times the memory of their text
    conversations = ",".join(
        "\n    " + report_json(_conversation(report, conversation)).replace("\n", "\n    ")
        for conversation in report.conversations
    )
    closing = "\n  ]\n}\n" if conversations else "]\n}\n"
    return "".join((report_json(summary).removesuffix("\n}"), ',\n  "conversations": [', conversations, closing))


def _conversation(report: Report, conversation: RunConversation) -> dict[str, Any]:
    given = [_turn(report, conversation, turn) for turn in conversation.given]
    return {
        "label": conversation.label,
        "case_id": conversation.case_id,
        "conversation_id": conversation.conversation_id,
        "status": report.status(conversation),
        "excluded": report.exclusion(conversation),
        "reasons": [reason["message"] for reason in report.reasons_of(conversation)],
        "notes": report.notes(conversation),
        "simulated_user": _user(conversation.user),
        "results": _results(report, conversation, None, conversation.results),
        "call_changes": _changes(report.changes_of_all(conversation)),
        "turns": [_turn(report, conversation, turn) for turn in conversation.turns],
        **({"given": given} if given else {}),
    }


def _user(user: UserRecord | None) -> dict[str, Any] | None:
    """The simulated user without its texts, which are in the export; a fault is a finding on the conversation."""
    if user is None:
        return None
    kept = {name: getattr(user, name) for name in ("conversation", "end", "prompt", "model", "replayed")}
    return kept | {"findings": [user.fault.to_dict()] if user.fault else [], "usage": user.usage.to_dict()}


def _turn(report: Report, conversation: RunConversation, turn: ConversationTurn) -> dict[str, Any]:
    if turn.turn is None:
        return {"turn": turn.index + 1, "turn_id": None}
    return {
        "turn": turn.index + 1,
        "turn_id": turn.turn["turn_id"],
        "state": turn.turn["state"],
        "seconds": duration(turn.turn),
        "failure": turn.failure,
        "results": _results(report, conversation, turn, turn.results),
        "findings": turn.turn["findings"],
        "call_changes": _changes(report.changes(conversation, turn)),
    }


def _changes(changes: list[CallChange] | None) -> list[dict[str, Any]] | None:
    """The calls that differ from the expected ones; None without an expectation."""
    if changes is None:
        return None
    return [change.to_dict() for change in changes if change.kind not in ("same", "ignored")]


def _results(
    report: Report, conversation: RunConversation, turn: ConversationTurn | None, results: Iterable[EvalResult]
) -> list[dict[str, Any]]:
    """`note` is how the verdict treats a bad result that it tolerates, else empty."""
    return [
        {key: getattr(result, key) for key in ("evaluator", "score", "status", "threshold", "label", "reason")}
        | {"note": report.note(conversation, turn, result)}
        | ({"calibration": said} if (said := judge_standing(result)) else {})
        for result in results
    ]
