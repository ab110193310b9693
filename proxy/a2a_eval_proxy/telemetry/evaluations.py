"""Evaluation results as `gen_ai.evaluation.result` events (OpenTelemetry semantic conventions for GenAI)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from ..clock import CLOCK
from ..store import ScoredConversation
from ..turn import Turn
from .common import report
from .turn_listener import ScoredTurn, TurnListener

EVENT = "gen_ai.evaluation.result"

_LABELS = {"passed": "pass", "failed": "fail"}
_TENTHS = tuple(tenth / 10 for tenth in range(11))
_DELAYS_S = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0, 300.0)


class EvaluationTelemetry(TurnListener):
    """Reports scored turns: an event for each result, scores and durations as histograms."""

    def __init__(self, logger: Logger, meter: Meter) -> None:
        def histogram(name: str, unit: str, text: str, bounds: Sequence[float]) -> Histogram:
            name = f"a2a_eval_proxy.{name}"
            return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)

        self._logger = logger
        scores = "Scores as parts of their scale, 0 the lowest and 1 the highest, by evaluator"
        self._scores = histogram("evaluation.score", "1", scores, _TENTHS)
        turns = "From the user's message to the end of the agent's answer"
        self._turn_durations = histogram("turn.duration", "s", turns, _DELAYS_S)
        results = "From the end of a turn to its results, waiting for traces included"
        self._durations = histogram("evaluation.duration", "s", results, _DELAYS_S)

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        """Report the results of turns. Never raises."""
        for turn, results, again in scored:
            self._report_turn(turn, results, again)

    def _report_turn(self, turn: Turn, results: Sequence[Mapping[str, Any]], again: bool) -> None:
        try:
            if turn.ended_at is not None and not again:
                self._turn_durations.record(max(0.0, turn.ended_at - turn.started_at))
                self._durations.record(max(0.0, CLOCK.now() - turn.ended_at))
            context = _context_of(turn)
            common = _given(turn.conversation_id, turn.run, turn.case_id, turn.turn_id)
            for result in results:
                self._report(result, common, context)
        except Exception as error:  # noqa: BLE001  # error boundary
            report(error)

    def conversation_scored(self, scored: ScoredConversation) -> None:
        """Report the results of a conversation as a whole, which are on no one turn's trace. Never raises."""
        try:
            run, conversation_id, case_id = scored.key
            common = _given(conversation_id=conversation_id, run=run, case_id=case_id)
            for result in scored.evaluations:
                self._report(result, common, Context())
        except Exception as error:  # noqa: BLE001  # error boundary
            report(error)

    def _report(self, result: Mapping[str, Any], common: Mapping[str, str], context: Context) -> None:
        score = result["score"]
        low, high = result["scale"]
        if score is not None and low < high:
            self._scores.record((score - low) / (high - low), {"gen_ai.evaluation.name": result["evaluator"]})
        self._logger.emit(
            LogRecord(
                timestamp=time.time_ns(),
                context=context,
                severity_number=SeverityNumber.INFO,
                event_name=EVENT,
                attributes={**common, **result_attributes(result)},
            )
        )


def result_attributes(result: Mapping[str, Any]) -> dict[str, str | float]:
    """A result (JSON form) in the words of the convention. One without a score has no value."""
    attributes: dict[str, str | float] = {
        "gen_ai.evaluation.name": result["evaluator"],
        "a2a_eval_proxy.evaluation.status": result["status"],
    }
    if result["score"] is not None:
        attributes["gen_ai.evaluation.score.value"] = float(result["score"])
    if label := result["label"] or _LABELS.get(result["status"]):
        attributes["gen_ai.evaluation.score.label"] = label
    if result["reason"]:
        attributes["gen_ai.evaluation.explanation"] = result["reason"]
    if result["status"] == "errored":
        attributes["error.type"] = "evaluator_error"
    return attributes


def _given(conversation_id: str, run: str, case_id: str | None, turn_id: str = "") -> dict[str, str]:
    attributes = {
        "gen_ai.conversation.id": conversation_id,
        "a2a_eval_proxy.turn_id": turn_id,
        "a2a_eval_proxy.run": run,
        "a2a_eval_proxy.case_id": case_id or "",
    }
    return {key: value for key, value in attributes.items() if value}


def _context_of(turn: Turn) -> Context:
    """The span that the agent was given as its parent; of a turn from an earlier process only the trace is known."""
    span = SpanContext(
        int(turn.trace_id or "0", 16),
        int(turn.parent_span_id or "0", 16),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
    return set_span_in_context(NonRecordingSpan(span), Context())
