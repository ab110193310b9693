"""Traces: what the proxy takes to ingest spans over OTLP/HTTP, against the floor of decoding them at all."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from support.ports import held_ports

from .otlp import Body, bodies, post_all, trace_ids, wait_until_taken
from .part import BehaviourError, Measured, Part, Setting
from .procfs import pin_to
from .programs import LoadError, compile_c, running_agent
from .report import Metric, Values, per
from .subjects import decode
from .targets import Running, launch_proxy, launched

FLOOR, SUBJECT = "decoding", "proxy"


class Batch(NamedTuple):
    """A way to export: spans in a request, and how it is encoded."""

    spans: int
    encoding: str = "protobuf"

    @property
    def key(self) -> str:
        return f"traces_{self.spans}_{self.encoding}"

    @property
    def group(self) -> str:
        return f"{self.spans} spans per request, {self.encoding}"


BATCHES = (Batch(8), Batch(64), Batch(512), Batch(512, "gzip"), Batch(512, "json"))
WARM_UP_TRACES = 50
FULL_MB = 64
"""So much is kept of traces that belong to no turn (as it came over the wire)."""


def _metrics() -> Iterator[Metric]:
    for batch in BATCHES:
        yield Metric(f"{batch.key}_per_s", batch.group, "spans/s, on one core")
        yield Metric(f"{batch.key}_cpu_us", batch.group, "CPU per span, µs")
    yield Metric("traces_of_turns_cpu_us", "Spans of turns, 64 per request", "CPU per span, with its turn scored, µs")
    group = "Memory under a flood of unknown traces (RSS), MB"
    yield Metric("traces_before_mb", group, "before")
    yield Metric("traces_full_mb", group, f"after {FULL_MB} MB of spans")
    yield Metric("traces_flooded_mb", group, "after four times that")


def _measure(setting: Setting) -> Measured:
    measured = Measured([FLOOR, SUBJECT])
    affinity = os.sched_getaffinity(0)
    os.sched_setaffinity(0, setting.other_cpus)  # this process is the exporter
    try:
        for number in range(1, setting.plan.rounds + 1):
            values = measured.next_round()
            for batch in BATCHES:
                setting.progress(f"round {number} of {setting.plan.rounds}: {batch.group}")
                batches = list(bodies(batch.spans, islice(trace_ids(), setting.plan.traces), batch.encoding))
                values[SUBJECT] |= _ingested(setting, batch, batches)
                if batch.encoding != "json":
                    values[FLOOR] |= _decoded(setting, batch, batches)
            setting.progress(f"round {number} of {setting.plan.rounds}: spans of turns, flood")
            values[SUBJECT] |= _joined(setting) | _flooded(setting)
    finally:
        os.sched_setaffinity(0, affinity)
    return measured


TRACES = Part("traces", tuple(_metrics()), SUBJECT, (FLOOR,), _measure)


def _ingested(setting: Setting, batch: Batch, batches: list[Body]) -> Values:
    """Spans of traces that belong to no turn: received, read, kept for a while. Spans/s are by the clock."""
    with _receiving(setting) as (proxy, port):
        already = _warmed_up(proxy, port)
        before, begun = proxy.cpu_seconds(), time.perf_counter()
        spans = post_all(port, batches)
        wait_until_taken(proxy, already + spans)
        elapsed_s = time.perf_counter() - begun
        return {f"{batch.key}_per_s": spans / elapsed_s, f"{batch.key}_cpu_us": per(_spent(proxy, before), spans)}


def _decoded(setting: Setting, batch: Batch, batches: list[Body]) -> Values:
    path = setting.folder / "bodies"
    decode.write_bodies(path, (body.content for body in batches))
    command = [sys.executable, decode.__file__, str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, preexec_fn=pin_to(setting.subject_cpus), timeout=300
    )
    found = json.loads(done.stdout)
    return {
        f"{batch.key}_per_s": found["spans"] / found["elapsed_s"],
        f"{batch.key}_cpu_us": per(found["cpu_s"], found["spans"]),
    }


def _joined(setting: Setting) -> Values:
    """Spans that come right after their turn: read, joined to it, turned into tool calls, scored and stored."""
    with (
        running_agent(compile_c("upstream", setting.folder), setting.other_cpus) as agent_port,
        _receiving(setting, f"127.0.0.1:{agent_port}", "--expect-traces") as (proxy, port),
    ):
        already = _warmed_up(proxy, port)
        ids = list(islice(trace_ids(), setting.plan.turns))
        batches = list(bodies(64, iter(ids)))
        _send_messages(proxy.port, ids)
        before = proxy.cpu_seconds()
        spans = post_all(port, batches)
        wait_until_taken(proxy, already + spans)
        if not proxy.settle():
            raise LoadError("the proxy does not finish scoring turns with traces")
        _check_joined(proxy)
        return {"traces_of_turns_cpu_us": per(_spent(proxy, before), spans)}


def _check_joined(proxy: Running) -> None:
    if not any(call["source"] == "otel_trace" for turn in proxy.stored_turns() for call in turn["tool_calls"]):
        raise BehaviourError("proxy: no turn has tool calls of its trace")


def _flooded(setting: Setting) -> Values:
    with _receiving(setting) as (proxy, port):
        taken = _warmed_up(proxy, port)
        values: Values = {"traces_before_mb": _rss_mb(proxy)}
        stream = bodies(512, trace_ids())
        for key, share in (("traces_full_mb", 0.25), ("traces_flooded_mb", 0.75)):
            taken += post_all(port, _up_to(stream, setting.plan.flood_mb * share * 1e6))
            wait_until_taken(proxy, taken)
            values[key] = _rss_mb(proxy)
        return values


def _up_to(stream: Iterator[Body], size: float) -> Iterator[Body]:
    while size > 0:
        body = next(stream)
        size -= body.size
        yield body


@contextmanager
def _receiving(setting: Setting, upstream: str = "127.0.0.1:9", *options: str) -> Iterator[tuple[Running, int]]:
    """The proxy, and its OTLP port. Without an upstream it has no agent to pass anything to, nor needs one."""
    folder = Path(tempfile.mkdtemp(dir=setting.folder))
    with held_ports(3) as [port, *ports]:
        launch = launch_proxy(upstream, folder, ports, "all", "--otlp", f"127.0.0.1:{port}", *options)
        with launched(SUBJECT, launch, folder, setting.subject_cpus) as proxy:
            yield proxy, port


def _warmed_up(proxy: Running, port: int) -> int:
    """Code paths run once; returns how many spans that took."""
    spans = post_all(port, bodies(64, islice(trace_ids(), WARM_UP_TRACES)))
    wait_until_taken(proxy, spans)
    return proxy.counter("spans")


def _send_messages(port: int, ids: list[bytes]) -> None:
    """A turn for each trace id."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for number, trace_id in enumerate(ids):
        message = {"messageId": f"m-{number}", "role": "ROLE_USER", "parts": [{"text": "Where is my order?"}]}
        body = {"jsonrpc": "2.0", "id": number, "method": "SendMessage", "params": {"message": message}}
        headers = {"Content-Type": "application/json", "traceparent": f"00-{trace_id.hex()}-00f067aa0ba902b7-01"}
        connection.request("POST", "/", json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise LoadError(f"SendMessage through the proxy was answered {answer.status}")
    connection.close()


def _spent(proxy: Running, before: float | None) -> float | None:
    after = proxy.cpu_seconds()
    return None if before is None or after is None else after - before


def _rss_mb(proxy: Running) -> float | None:
    size = proxy.rss_bytes()
    return None if size is None else size / 1e6
