"""Traces: what the proxy takes to ingest spans over OTLP/HTTP.

Bodies are the golden spans as agents export them, repeatedly, in traces of their own.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from typing import NamedTuple

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.ports import held_ports

from .part import BehaviourError, Measured, Metric, Setting, Values, per
from .programs import compile_c, running_agent
from .targets import Running, launched, proxy_command

GOLDEN = Path(__file__).parents[2] / "golden" / "spans"
SUBJECT = "proxy"
EXPORTERS = 4
"""At once; each waits for its answer before it sends the next body, as OpenTelemetry SDKs do."""
BATCHES = {"one": ("1 trace per request", 1), "many": ("40 traces per request", 40)}
WARM_UP_TRACES = 50
PATIENCE_S = 120.0
_POLL_S = 0.02

_MEMORY = "Memory (RSS), MB, of the same process under a flood of unknown traces"
METRICS = (
    *(Metric(f"traces_{key}_cpu_us", title, "CPU per span, µs") for key, (title, *_) in BATCHES.items()),
    Metric("traces_of_turns_cpu_us", "Traces of turns", "CPU per span, with its turn scored, µs"),
    Metric("traces_before_mb", _MEMORY, "at the start"),
    Metric("traces_full_mb", _MEMORY, "after 64 MB of spans"),
    Metric("traces_flooded_mb", _MEMORY, "after four times that"),
)


class Body(NamedTuple):
    """What is posted, and how many spans it holds."""

    content: bytes
    spans: int


def trace_ids() -> Iterator[bytes]:
    """Trace ids without end, none twice in a process."""
    return (number.to_bytes(16, "big") for number in _numbers)


_numbers = count(1 << 100)


def bodies(ids: Iterable[bytes], traces: int = 40) -> Iterator[Body]:
    """Requests of that number of traces each, until `ids` end."""
    ids, recorded = iter(ids), cycle(_golden_traces())
    while some := list(islice(ids, traces)):
        chosen = list(islice(recorded, len(some)))
        content = b"".join(
            body.replace(old, new) for new, (body, old, _) in zip(some, chosen, strict=True)
        )  # one message of protobuf after another is one message
        yield Body(content, sum(spans for *_, spans in chosen))


def _golden_traces() -> list[tuple[bytes, bytes, int]]:
    """Requests with one trace each, its id, and the number of its spans."""
    found = []
    for path in sorted(path for path in GOLDEN.glob("*.pb") if not path.name.endswith(".logs.pb")):
        content = path.read_bytes()
        request = ExportTraceServiceRequest.FromString(content)
        spans = [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]
        if len({span.trace_id for span in spans}) == 1:
            found.append((content, spans[0].trace_id, len(spans)))
    return found


def traces(setting: Setting) -> Measured:
    measured = Measured(METRICS, [SUBJECT])
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, setting.other_cpus)  # this process is the exporter
    agent = compile_c("upstream", setting.folder)
    try:
        for number in range(1, setting.plan.rounds + 1):
            values = measured.next_round()
            with (
                running_agent(agent, setting.other_cpus) as agent_port,
                _receiving(setting, agent_port) as (proxy, port),
            ):
                idle_mb = proxy.rss_mb()
                setting.progress(f"round {number} of {setting.plan.rounds}: traces of turns")
                values[SUBJECT] |= _joined(setting, proxy, port)
                for key, (title, size) in BATCHES.items():
                    setting.progress(f"round {number} of {setting.plan.rounds}: {title}")
                    batch = list(bodies(islice(trace_ids(), setting.plan.traces), size))
                    values[SUBJECT][f"traces_{key}_cpu_us"] = _ingested(proxy, port, batch)
                setting.progress(f"round {number} of {setting.plan.rounds}: flood")
                values[SUBJECT] |= _flooded(setting, proxy, port, idle_mb)
    finally:
        os.sched_setaffinity(0, affinity)
    return measured


def _ingested(proxy: Running, port: int, batch: list[Body]) -> float | None:
    """Microseconds of CPU for each span, once all is read and scored."""
    before = proxy.cpu_seconds() or 0.0
    spans = post_all(proxy, port, batch)
    if not proxy.settle():
        raise BehaviourError("the proxy does not finish scoring turns with traces")
    return per((proxy.cpu_seconds() or 0.0) - before, spans)


def _joined(setting: Setting, proxy: Running, port: int) -> Values:
    """Spans that come right after their turn: read, joined to it, turned into tool calls, scored and stored."""
    ids = list(islice(trace_ids(), setting.plan.turns))
    for number, trace_id in enumerate(ids):
        message = {"messageId": f"m-{number}", "role": "ROLE_USER", "parts": [{"text": "Where is my order?"}]}
        body = {"jsonrpc": "2.0", "id": number, "method": "SendMessage", "params": {"message": message}}
        headers = {"traceparent": f"00-{trace_id.hex()}-00f067aa0ba902b7-01"}
        httpx.post(f"http://127.0.0.1:{proxy.port}/", json=body, headers=headers).raise_for_status()
    found = _ingested(proxy, port, list(bodies(ids)))
    if not any(call["source"] == "otel_trace" for turn in proxy.stored_turns() for call in turn["tool_calls"]):
        raise BehaviourError("proxy: no turn has tool calls of its trace")
    return {"traces_of_turns_cpu_us": found}


def _flooded(setting: Setting, proxy: Running, port: int, idle_mb: float | None) -> Values:
    values: Values = {"traces_before_mb": idle_mb}
    for key, floods in (("traces_full_mb", 1), ("traces_flooded_mb", 3)):
        for _ in range(floods):
            post_all(proxy, port, list(_of_size(setting.plan.flood_mb * 1_000_000)))
        values[key] = proxy.rss_mb()
    return values


def _of_size(left: int) -> Iterator[Body]:
    stream = bodies(trace_ids())
    while left > 0:
        yield (body := next(stream))
        left -= len(body.content)


@contextmanager
def _receiving(setting: Setting, agent_port: int) -> Iterator[tuple[Running, int]]:
    """The proxy, warmed up, and its OTLP port."""
    folder = Path(tempfile.mkdtemp(dir=setting.folder))
    with held_ports(3) as (otlp, port, admin):
        traces = ("--otlp", f"127.0.0.1:{otlp}", "--expect-traces")
        command = proxy_command(f"127.0.0.1:{agent_port}", folder, port, admin, "all", *traces)
        with launched(SUBJECT, command, port, folder, setting.subject_cpus, admin) as proxy:
            post_all(proxy, otlp, list(bodies(islice(trace_ids(), WARM_UP_TRACES))))
            yield proxy, otlp


def post_all(proxy: Running, port: int, batch: list[Body]) -> int:
    """Post every body to the OTLP port, and return the number of their spans once all are read.

    One that is answered with 503 is sent again. Raises BehaviourError where they are not read in time.
    """
    url, give_up = f"http://127.0.0.1:{port}/v1/traces", time.monotonic() + PATIENCE_S
    spans = sum(body.spans for body in batch)
    expected = proxy.counter("spans") + spans
    with httpx.Client(timeout=PATIENCE_S, trust_env=False) as client, ThreadPoolExecutor(EXPORTERS) as pool:

        def post(body: Body) -> None:
            headers = {"content-type": "application/x-protobuf"}
            while (answer := client.post(url, content=body.content, headers=headers)).status_code == 503:
                time.sleep(_POLL_S)
            answer.raise_for_status()

        list(pool.map(post, batch))
    while (taken := proxy.counter("spans")) < expected:
        if time.monotonic() > give_up:
            raise BehaviourError(f"the proxy has read {taken} of {expected} spans in {PATIENCE_S:g} s")
        time.sleep(_POLL_S)
    return spans
