"""`Metrics` as OpenTelemetry's observable instruments: read when exported, so counting costs what it did before."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from .counters import ForwardCounts, Metrics

_Callback = Callable[[CallbackOptions], Iterable[Observation]]


def observe(meter: Meter, metrics: Metrics, queue_depth: Callable[[], int], open_turns: Callable[[], int]) -> None:
    """Report `metrics` and the two gauges on `meter`. They are read in the exporter's thread."""
    counters: tuple[tuple[str, str, str, _Callback], ...] = (
        ("requests", "{request}", "Requests received on the data port", _total(lambda: metrics.requests)),
        ("upstream_errors", "{request}", "Requests the agent did not answer", _total(lambda: metrics.upstream_errors)),
        ("turns.closed", "{turn}", "Turns captured to their end", _total(lambda: metrics.turns_closed)),
        ("turns.failed", "{turn}", "Turns that the agent failed", lambda _: _labelled("code", metrics.turns_failed)),
        ("turns.scored", "{turn}", "Turns scored", _total(lambda: metrics.turns_scored)),
        ("turns.dropped", "{turn}", "Turns the store was too slow for", _total(lambda: metrics.turns_dropped)),
        ("spans", "{span}", "Spans received", _total(lambda: metrics.spans)),
        ("spans.dropped", "{span}", "Received spans that found no turn", _total(lambda: metrics.spans_dropped)),
        ("otlp.requests", "{request}", "Requests with telemetry received", lambda _: _received(metrics)),
        (
            "otlp.forward.requests",
            "{request}",
            "Requests with telemetry sent on",
            lambda _: _forwarded(metrics.forward),
        ),
        ("tool_calls", "{call}", "Tool calls captured, by source", lambda _: _labelled("source", metrics.calls)),
        ("findings", "{finding}", "Findings, by code", lambda _: _labelled("code", metrics.findings)),
        ("evaluations", "{result}", "Evaluation results, by evaluator and status", lambda _: _results(metrics)),
    )
    for name, unit, description, callback in counters:
        meter.create_observable_counter(f"a2a_eval_proxy.{name}", [callback], unit, description)
    waiting = _total(lambda: metrics.forward.held_bytes)
    name, description = "a2a_eval_proxy.otlp.forward.held", "Telemetry waiting for the collector"
    meter.create_observable_up_down_counter(name, [waiting], "By", description)
    gauges: tuple[tuple[str, str, Callable[[], int]], ...] = (
        ("queue_depth", "Turns closed and not yet scored", queue_depth),
        ("open_turns", "Turns not yet closed", open_turns),
    )
    for name, description, value in gauges:
        meter.create_observable_up_down_counter(f"a2a_eval_proxy.{name}", [_total(value)], "{turn}", description)


def _total(value: Callable[[], int]) -> _Callback:
    return lambda _: [Observation(value())]


def _labelled(label: str, counts: dict[str, int]) -> list[Observation]:
    # A copy, since the event loop continues to count.
    return [Observation(count, {label: key}) for key, count in tuple(counts.items())]


def _received(metrics: Metrics) -> list[Observation]:
    return [
        Observation(count, {"protocol": protocol, "outcome": outcome})
        for (protocol, outcome), count in tuple(metrics.otlp_requests.items())
    ]


def _forwarded(counts: ForwardCounts) -> list[Observation]:
    outcomes = {"sent": counts.sent, "retried": counts.retried, "dropped": counts.dropped}
    return [Observation(count, {"outcome": outcome}) for outcome, count in outcomes.items()]


def _results(metrics: Metrics) -> list[Observation]:
    return [
        Observation(count, {"gen_ai.evaluation.name": evaluator, "status": status})
        for (evaluator, status), count in tuple(metrics.evaluations.items())
    ]
