"""What proxies and workers measure: a row for each instrument, exposed to Prometheus and to OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from .counters import Durations

Reading = float | Durations | Mapping[Any, int] | None


class Instrument(NamedTuple):
    """A counter, a gauge, or a histogram of durations.

    `name` is OpenTelemetry's, after `a2a_eval_proxy.`; Prometheus has `_` for its dots. `unit` is OpenTelemetry's, too:
    instruments without one are not exported there. `attribute` of the table's source has the value: a number; with
    `labels`, numbers by the label's value or by a tuple of them; None while it is unknown. Without `attribute`, it is
    the one with the name for Prometheus.
    """

    name: str
    text: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    attribute: str = ""
    is_gauge: bool = False

    def reading(self, source: Any) -> Reading:
        """May be called in another thread."""
        value: Reading = attrgetter(self.attribute or self.name.replace(".", "_"))(source)
        return value

    def series(self, reading: Any) -> list[tuple[list[str], float]]:
        """The values of the labels, each with its number."""
        if not self.labels:
            return [([], reading)]
        copied = tuple(reading.items())  # the event loop continues to count
        return [([*map(str, key if isinstance(key, tuple) else (key,))], count) for key, count in copied]


class Source(NamedTuple):
    """Instruments and the object that they read, None while it is unknown."""

    instruments: tuple[Instrument, ...]
    read: Callable[[], Any]


Gauge = partial(Instrument, is_gauge=True)

SCORED = (
    Instrument("turns.scored", "Turns scored", "{turn}"),
    Instrument("evaluations", "Evaluation results", "{result}", ("evaluator", "status")),
)
"""Of `Metrics`: what a worker counts, and a proxy that scores."""

COUNTED = (
    Instrument("requests", "Requests received on the data port", "{request}"),
    Instrument("upstream_errors", "Requests the agent did not answer", "{request}"),
    Instrument("responses", "Responses to clients, by HTTP status or name of the gRPC status", labels=("code",)),
    Instrument("request_duration_seconds", "From a request's headers to the end of its answer", attribute="request_s"),
    Instrument(
        "time_to_first_byte_seconds", "From a request's headers to the headers of its answer", attribute="first_byte_s"
    ),
    Instrument("client_errors", "Requests and connections of clients refused or cut off", labels=("reason",)),
    Instrument("turns.closed", "Turns captured to their end", "{turn}"),
    Instrument("turns.failed", "Turns that the agent failed, by what went wrong", "{turn}", ("code",)),
    Instrument("turns.dropped", "Turns lost because the store did not keep up", "{turn}"),
    Instrument("turns.evicted", "Turns closed as incomplete, since open ones took too much memory"),
    *SCORED,
    Instrument("spans", "Spans received", "{span}"),
    Instrument("spans.dropped", "Spans that belonged to no turn, or had to make room", "{span}"),
    Instrument("otlp.requests", "Requests with telemetry", "{request}", ("protocol", "outcome")),
    Instrument(
        "otlp.forward.requests",
        "Requests with telemetry sent on to a collector",
        "{request}",
        ("outcome",),
        "forward.outcomes",
    ),
    Gauge("otlp.forward.held", "Bytes of telemetry waiting for the collector", "By", attribute="forward.held_bytes"),
    Instrument("tool_calls", "Tool calls captured, by source", "{call}", ("source",), "calls"),
    Instrument("findings", "Findings, by code", "{finding}", ("code",)),
)
"""Of `Metrics`: what happened since the start of a proxy."""

OPEN = (
    Gauge("queue_depth", "Turns waiting to be scored", "{turn}"),
    Gauge("open_turns", "Turns not yet closed", "{turn}"),
)
"""Of a proxy."""

STORE = (
    Gauge("store_up", "1 where the store took the last write, 0 where it cannot be written", attribute="is_written"),
    Gauge("store_waiting_turns", "Turns in memory that wait to be written", attribute="waiting_turns"),
    Gauge("store_waiting_bytes", "Memory of all that waits to be written", attribute="waiting_bytes"),
    Gauge("store_last_write_timestamp_seconds", "When it last took a write", attribute="last_write_at"),
    Instrument("store_writes", "Groups of turns and results that the store took", attribute="writes"),
    Instrument("store_failures", "Attempts to open or write the store that failed", attribute="failed_writes"),
    Instrument(
        "store_replaced", "Times that the store's file was damaged or gone and was made again", attribute="replaced"
    ),
)
"""Of `StoreHealth`: how the store does."""

BACKLOG = (
    Gauge("pending_turns", "Turns in the shared store that wait to be scored, 100,000 at most", attribute="turns"),
    Gauge("pending_oldest_seconds", "How long the oldest of them has waited", attribute="oldest_s"),
    Gauge("workers", "Workers of the shared store that gave a sign of life within a minute"),
)
"""Of `Backlog`: what waits in a store that workers share."""
