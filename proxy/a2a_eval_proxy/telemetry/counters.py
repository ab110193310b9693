"""Counters of this process, and the instruments that expose them to Prometheus.

Counters are plain numbers that the byte path increments.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from tool_call_evaluators.model import OVER_BUDGET

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


@dataclass(slots=True)
class ForwardCounts:
    """Telemetry sent on to a collector: requests since the start, and what waits now."""

    outcomes: Counter[str] = field(default_factory=lambda: Counter(sent=0, retried=0, dropped=0))
    """Dropped are those that were lost: refused by the collector, tried for too long, pushed out of a full queue, or
    left at the end."""
    held_bytes: int = 0  # of the bodies not sent yet


@dataclass(slots=True)
class Durations:
    """How often something took how long."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """Of those up to each bound and beyond the one before; last those beyond all."""
    total_s: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


@dataclass(slots=True)
class Metrics:
    """What happened since the start. Incremented where it happens; nothing here locks or waits."""

    requests: int = 0
    upstream_errors: int = 0
    responses: Counter[int | str] = field(default_factory=Counter)
    """Responses to clients, by HTTP status or name of the gRPC status; `none` where the client left before."""
    request_s: Durations = field(default_factory=Durations)
    first_byte_s: Durations = field(default_factory=Durations)
    loop_delay_s: Durations = field(default_factory=Durations)
    client_errors: Counter[str] = field(default_factory=Counter)
    """Limits of time, size and number, and rules of HTTP, that clients broke, by reason."""
    turns_closed: int = 0
    turns_failed: Counter[str] = field(default_factory=Counter)
    """Turns that the agent failed, by code (see `turn_health.TurnFailure`)."""
    turns_scored: int = 0
    turns_dropped: int = 0
    turns_evicted: int = 0  # closed as incomplete because open turns took too much memory
    spans: int = 0
    spans_dropped: int = 0
    otlp_requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Telemetry received, by protocol (`http`, `grpc`) and outcome (`accepted`, `rejected`)."""
    forward: ForwardCounts = field(default_factory=ForwardCounts)
    calls: Counter[str] = field(default_factory=Counter)  # captured calls by source
    findings: Counter[str] = field(default_factory=Counter)  # findings by code
    evaluations: Counter[tuple[str, str]] = field(default_factory=Counter)  # results by evaluator and status
    judge_requests: int = 0
    judge_skips: int = 0

    agent_requests: Counter[str] = field(default_factory=Counter)  # by the name of one of several agents, as are these:
    agent_turns: Counter[str] = field(default_factory=Counter)
    agent_failures: Counter[str] = field(default_factory=Counter)
    agent_evaluations: Counter[tuple[str, str]] = field(default_factory=Counter)  # also by status
    agent_judge_requests: Counter[str] = field(default_factory=Counter)
    agent_judge_skips: Counter[str] = field(default_factory=Counter)

    def count_results(self, results: Iterable[Mapping[str, Any]], agent_name: str | None = None) -> None:
        """Count evaluation results in their JSON form, for one of several agents."""
        for result in results:
            judge = result["details"].get("judge")
            requests = judge.get("requests", 0) if isinstance(judge, dict) else 0
            skipped = result["label"] == OVER_BUDGET
            self.evaluations[result["evaluator"], result["status"]] += 1
            self.judge_requests += requests
            self.judge_skips += skipped
            if agent_name is not None:
                self.agent_evaluations[agent_name, result["status"]] += 1
                self.agent_judge_requests[agent_name] += requests
                self.agent_judge_skips[agent_name] += skipped


class Instrument(NamedTuple):
    """A counter, a gauge or a histogram, whose `name` comes after `a2a_eval_proxy_`.

    `attribute` of the table's source has the value: a number; with `labels`, numbers by the label's value or by a tuple
    of them; of a histogram `Durations`; None while it is unknown. Without `attribute`, it is the one with the name.
    """

    name: str
    text: str
    labels: tuple[str, ...] = ()
    attribute: str = ""
    is_gauge: bool = False

    def reading(self, source: Any) -> Any:
        return attrgetter(self.attribute or self.name)(source)


class Source(NamedTuple):
    """Instruments and the object that they read, None while it is unknown."""

    instruments: tuple[Instrument, ...]
    read: Callable[[], Any]


Gauge = partial(Instrument, is_gauge=True)

SCORED = (
    Instrument("turns_scored", "Turns scored"),
    Instrument("evaluations", "Evaluation results", ("evaluator", "status")),
    Instrument("judge_requests", "Requests to judges for these results"),
    Instrument("judge_skips", "Results skipped as the judge budget was spent"),
    Instrument("agent_evaluations", "Results of one of several agents", ("agent", "status")),
    Instrument("agent_judge_requests", "Requests to judges for one of several agents", ("agent",)),
    Instrument("agent_judge_skips", "Results of one of several agents beyond its budget", ("agent",)),
)
"""Of `Metrics`: what a worker counts, and a proxy that scores."""

COUNTED = (
    Instrument("requests", "Requests received on the data port"),
    Instrument("upstream_errors", "Requests the agent did not answer"),
    Instrument("responses", "Responses to clients, by HTTP status or name of the gRPC status", labels=("code",)),
    Instrument("request_duration_seconds", "From a request's headers to the end of its answer", attribute="request_s"),
    Instrument(
        "time_to_first_byte_seconds", "From a request's headers to those of its answer", attribute="first_byte_s"
    ),
    Instrument("loop_delay_seconds", "How late the proxy itself comes to its work", attribute="loop_delay_s"),
    Instrument("client_errors", "Requests and connections of clients refused or cut off", labels=("reason",)),
    Instrument("turns_closed", "Turns captured to their end"),
    Instrument("turns_failed", "Turns that the agent failed, by what went wrong", ("code",)),
    Instrument("turns_dropped", "Turns lost because the store did not keep up"),
    Instrument("turns_evicted", "Turns closed as incomplete, since open ones took too much memory"),
    *SCORED,
    Instrument("spans", "Spans received"),
    Instrument("spans_dropped", "Spans that belonged to no turn, or had to make room"),
    Instrument("otlp_requests", "Requests with telemetry", ("protocol", "outcome")),
    Instrument(
        "otlp_forward_requests",
        "Requests with telemetry sent on to a collector",
        ("outcome",),
        "forward.outcomes",
    ),
    Gauge("otlp_forward_held_bytes", "Bytes of telemetry waiting for the collector", attribute="forward.held_bytes"),
    Instrument("tool_calls", "Tool calls captured, by source", ("source",), "calls"),
    Instrument("findings", "Findings, by code", ("code",)),
    Instrument("agent_requests", "Requests for one of several agents", ("agent",)),
    Instrument("agent_turns", "Turns of one of several agents, captured to their end", ("agent",)),
    Instrument("agent_failures", "Turns that one of several agents failed", ("agent",)),
)
"""Of `Metrics`: what happened since the start of a proxy."""

OPEN = (
    Gauge("queue_depth", "Turns waiting to be scored"),
    Gauge("open_turns", "Turns not yet closed"),
    Gauge("agent_queue_depth", "Turns of one of several agents that wait to be scored", ("agent",)),
    Gauge("agent_open_turns", "Turns of one of several agents not yet closed", ("agent",)),
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

CONTAINER = (
    Gauge("memory_used_bytes", "Memory of the container that cannot be reclaimed", attribute="used"),
    Gauge("memory_limit_bytes", "Limit of the container's memory, beyond which it is killed", attribute="limit"),
)
"""Of `ContainerMemory`."""

BACKLOG = (
    Gauge("pending_turns", "Turns in the shared store that wait to be scored, 100,000 at most", attribute="turns"),
    Gauge("pending_oldest_seconds", "How long the oldest of them has waited", attribute="oldest_s"),
    Gauge("workers", "Workers of the shared store that gave a sign of life within a minute"),
)
"""Of `Backlog`: what waits in a store that workers share."""
