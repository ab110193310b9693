"""Decoded requests on their way to the trace book: in parts, without tearing traces apart."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import replace

from a2a_eval_proxy.otlp.trace_service import Tracing
from a2a_eval_proxy.telemetry.counters import Metrics
from a2a_eval_proxy.turn import Turn
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.otlp import export_request

TRACES = 5
SPANS = 150
"""In each trace; half of them of the framework."""


def batch() -> ExportTraceServiceRequest:
    """What an SDK exports: ordered by scope, so that the roots (of the server's scope) come before the tool calls."""
    request = ExportTraceServiceRequest()
    scopes = request.resource_spans.add().scope_spans
    server, framework = scopes.add().spans, scopes.add().spans
    now = time.time_ns()
    for trace in range(1, TRACES + 1):
        for number in range(1, SPANS + 1):
            span = (server if number <= SPANS // 2 else framework).add()
            span.trace_id, span.span_id = trace.to_bytes(16, "big"), number.to_bytes(8, "big")
            span.parent_span_id = b"" if number == 1 else (1).to_bytes(8, "big")
            span.start_time_unix_nano = span.end_time_unix_nano = now
            if number == SPANS:
                for key, value in (("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "w")):
                    span.attributes.add(key=key).value.string_value = value
    return request


async def test_a_turn_is_complete_with_all_that_the_batch_has_of_it() -> None:
    metrics = Metrics()
    turns = [
        Turn(f"t{trace}", "run", "agent", "JSONRPC", "1.0", time.time(), trace_id=f"{trace:032x}", agent_name=name)
        for trace, name in zip(range(1, TRACES + 1), itertools.cycle([None, "orders"]))
    ]
    seen: dict[str, int] = {}
    all_told = asyncio.Event()

    def changed(turn: Turn, tells: bool) -> None:
        evidence = tracing.evidence(turn)
        if tracing.complete(turn) and evidence is not None:
            seen.setdefault(turn.turn_id, len(evidence.spans))
        if len(seen) == TRACES:
            all_told.set()

    tracing = Tracing(metrics, wait_s=6.0, expected=False)
    tracing.listen(None, changed)
    for turn in turns:
        tracing.opened(turn)
    request = batch()
    await tracing.take(request, request.ByteSize())
    await all_told.wait()
    assert [tracing.has_sent(name) for name in (None, "orders", "refunds")] == [True, True, False]
    tracing.close()
    assert seen == dict.fromkeys((turn.turn_id for turn in turns), SPANS)
    assert metrics.spans == TRACES * SPANS


async def test_spans_without_valid_ids_are_rejected_and_counted() -> None:
    request = export_request(["good", "short", "zero"])
    _, short, zero = request.resource_spans[0].scope_spans[0].spans
    short.trace_id, zero.span_id = b"\x01" * 4, bytes(8)
    metrics = Metrics()
    tracing = Tracing(metrics, wait_s=6.0, expected=False)
    assert await tracing.take(request, request.ByteSize()) == 2
    tracing.close()
    assert (metrics.spans, metrics.spans_dropped) == (1, 2)


async def test_without_calls_a_turn_is_not_complete_with_the_root_span() -> None:
    """The span of a tool may come after it: what says that none was made is the end of the wait, or another source."""

    numbers = {"invoke_agent": 1, "execute_tool": 2}

    def spans(*operations: str) -> ExportTraceServiceRequest:
        request = ExportTraceServiceRequest()
        for operation in operations:
            span = request.resource_spans.add().scope_spans.add().spans.add(name=f"{operation} w")
            span.trace_id, span.span_id = (1).to_bytes(16, "big"), numbers[operation].to_bytes(8, "big")
            span.parent_span_id = bytes(7) + b"\x01" if operation == "execute_tool" else b""
            span.start_time_unix_nano = span.end_time_unix_nano = time.time_ns()
            span.attributes.add(key="gen_ai.operation.name").value.string_value = operation
        return request

    told: asyncio.Queue[str] = asyncio.Queue()
    tracing = Tracing(Metrics(), wait_s=60.0, expected=False)
    stop = tracing.listen(None, lambda turn, tells: told.put_nowait(turn.turn_id))
    tracing.expect("orders", wait_s=1.0, expected=True)
    assert [tracing.heard(name) for name in (None, "orders", "refunds")] == [False, True, False]
    turn = Turn("t1", "run", "agent", "JSONRPC", "1.0", time.time(), trace_id=f"{1:032x}")
    tracing.opened(turn)
    assert (tracing.complete(turn), tracing.wait_s(turn)) == (False, 0.0)
    turn.ended_at = time.time()
    tracing.ended(turn)
    await tracing.take(spans("invoke_agent"), 100)
    await told.get()
    assert not tracing.complete(turn)
    assert 0 < tracing.wait_s(turn) < 3600
    assert tracing.complete(replace(turn, shown_by="extension"))
    await tracing.take(spans("execute_tool"), 100)
    await told.get()
    assert (tracing.complete(turn), tracing.wait_s(turn)) == (True, 0.0)
    stop()
    await tracing.take(spans("execute_tool"), 100)
    assert told.empty()
    assert [span.name for span in tracing.spans("t1")] == ["invoke_agent w", "execute_tool w"]
    tracing.lost("too large")
    event = ExportLogsServiceRequest()
    event.resource_logs.add().scope_logs.add().log_records.add(trace_id=bytes(15) + b"\x01", event_name="gen_ai.choice")
    assert await tracing.take(event, 100) == 0
    evidence = tracing.evidence(turn)
    assert evidence is not None
    assert ([one.name for one in evidence.logs], evidence.lost) == (["gen_ai.choice"], "too large")
    tracing.expire(time.time() + 10_000)
    assert tracing.evidence(turn) is None
    tracing.close()
