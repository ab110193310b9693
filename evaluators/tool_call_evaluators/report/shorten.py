"""Cuts texts and states the number of missing characters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..matching.call_failure import has_failed
from ..model import READ_DETAILS, Status
from ..outcomes.conversations import TurnJson
from ..texts import finite

LONGEST_TEXT = 20_000
"""Maximum length of a text in any report; the export contains the rest."""
_ROOM = 40
"""Room for the note about missing characters."""


_SPANS, _SPANS_OF_A_BAD_TURN = 20, 100
"""Spans of a turn in a report, the first ones."""


class Shortener:
    """Cuts strings, at any depth, to `limit` characters and adds the number of missing ones."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def text(self, text: str | None) -> str | None:
        if text is not None and len(text) > self._limit:
            return f"{text[: self._limit]}… ({len(text) - self._limit:,} more characters)"
        return text

    def value(self, value: Any) -> Any:
        """JSON data with cut strings; one string if it is too large as a whole."""
        whole = json.dumps(value, ensure_ascii=False, default=str)
        return self.text(whole) if len(whole) > self._limit else finite(value)


def with_outcome(call: Mapping[str, Any], result: str | None, error: str | None) -> Mapping[str, Any]:
    """A call with another result and error; where they differ from those of `call`, `shortened` and `failed`."""
    if result == call["result"] and error == call["error"]:
        return call
    return {**call, "result": result, "error": error, "shortened": True, "failed": has_failed(call)}


def shortened_turn(turn: TurnJson) -> TurnJson:
    """A turn reduced for a report, so that many fit into memory. Long texts are cut: answers, tool results, findings
    and reasons. The data that identifies and compares turns (user text, arguments, scores) stays; of the details of a
    good result only those of its judge."""
    cut = Shortener(LONGEST_TEXT - _ROOM).text
    is_bad = any(result["status"] in (Status.FAILED, Status.ERRORED) for result in turn["evaluations"])
    spans = turn.get("spans", ())[: _SPANS_OF_A_BAD_TURN if is_bad else _SPANS]
    return {
        **turn,
        **({"spans": spans} if spans else {}),
        "response_text": cut(turn["response_text"]),
        "tool_calls": [with_outcome(call, cut(call["result"]), cut(call["error"])) for call in turn["tool_calls"]],
        "findings": [{**finding, "message": cut(finding["message"])} for finding in turn["findings"]],
        "evaluations": [
            {**result, "reason": cut(result["reason"]), "details": _told_details(result)}
            for result in turn["evaluations"]
        ],
    }


def _told_details(result: Mapping[str, Any]) -> Mapping[str, Any]:
    details: Mapping[str, Any] = result["details"]
    if result["status"] in (Status.FAILED, Status.ERRORED):
        return details
    return {key: details[key] for key in READ_DETAILS if key in details}
