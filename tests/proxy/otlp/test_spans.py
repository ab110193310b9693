"""What of an OTLP request becomes a span or a log event, what is rejected, and how turns get the others."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import replace
from typing import Any

from a2a_eval_proxy.otlp.spans import logs_from_proto, spans_from_proto, value_from_proto
from a2a_eval_proxy.otlp.trace_service import Tracing
from a2a_eval_proxy.telemetry.counters import Metrics
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture.json_limits import ATTRIBUTE
from a2a_tool_capture.spans.in_memory import log_of, span_of
from a2a_tool_capture.spans.model import CutText, LogEvent
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from support.otlp import export_request

TRACE_ID, SPAN_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"


def test_protobuf_ids_of_the_wrong_size_are_rejected() -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=b"\x01" * 15, span_id=b"\x01" * 8)
    spans.add(trace_id=b"\x01" * 16, span_id=b"\x00" * 8)
    spans.add(trace_id=b"\x01" * 16, span_id=b"\x01" * 8, parent_span_id=b"\x01" * 3)

    assert [(span.span_id, span.parent_span_id) for span in spans_from_proto(request)] == [("01" * 8, "")]


def test_where_the_exporter_does_not_tell_a_parent_is_neither_remote_nor_local() -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for span_id, flags in enumerate((0, 0x100, 0x300), start=1):
        spans.add(trace_id=b"\x01" * 16, span_id=bytes([span_id] * 8), flags=flags)

    assert [span.parent_is_remote for span in spans_from_proto(request)] == [None, False, True]


def test_a_huge_attribute_is_cut_and_says_so() -> None:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"\x01" * 16, span_id=b"\x01" * 8)
    span.attributes.add(key="huge").value.string_value = "x" * 10_000_000
    span.attributes.add(key="small").value.string_value = "x"

    (read,) = spans_from_proto(request)

    assert isinstance(read.attributes["huge"], CutText)
    assert len(read.attributes["huge"]) == 1 << 20
    assert not isinstance(read.attributes["small"], CutText)


def test_log_events_need_a_name_and_a_trace() -> None:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add()
    records.scope.name = "opentelemetry.instrumentation.openai"
    record = records.log_records.add(
        trace_id=bytes.fromhex(TRACE_ID), span_id=bytes.fromhex(SPAN_ID), event_name="gen_ai.choice", time_unix_nano=7
    )
    record.body.kvlist_value.values.add(key="index").value.int_value = 0
    older = records.log_records.add(trace_id=bytes.fromhex(TRACE_ID), observed_time_unix_nano=9)
    older.attributes.add(key="event.name").value.string_value = "gen_ai.user.message"
    records.log_records.add(trace_id=bytes.fromhex(TRACE_ID), severity_text="INFO")
    records.log_records.add(event_name="gen_ai.choice")

    assert logs_from_proto(request) == [
        LogEvent(TRACE_ID, SPAN_ID, "gen_ai.choice", 7, records.scope.name, {}, {"index": 0}),
        LogEvent(TRACE_ID, "", "gen_ai.user.message", 9, records.scope.name, {"event.name": "gen_ai.user.message"}),
    ]


VALUES = st.text(max_size=5) | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
ATTRIBUTES = st.dictionaries(st.text(min_size=1, max_size=4), VALUES | st.lists(st.text(max_size=3), max_size=3))


@given(st.sampled_from(SpanKind), st.sampled_from(StatusCode), st.text(max_size=5), ATTRIBUTES, ATTRIBUTES)
def test_a_span_is_the_same_in_its_process_and_over_otlp(
    kind: SpanKind, status: StatusCode, text: str, attributes: Any, of_event: Any
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("app")
    with tracer.start_as_current_span("outer"), tracer.start_as_current_span(text, kind=kind) as span:
        span.set_attributes(attributes)
        span.add_event(text, of_event)
        span.set_status(status, text if status is StatusCode.ERROR else None)

    ended = exporter.get_finished_spans()
    received = spans_from_proto(encode_spans(ended))

    assert [replace(span, resource={}, parent_is_remote=None) for span in received] == list(map(span_of, ended))


@given(st.text(max_size=5), st.recursive(VALUES, lambda inner: st.dictionaries(st.text(), inner), max_leaves=4))
def test_a_log_event_is_the_same_in_its_process_and_over_otlp(name: str, body: Any) -> None:
    exporter, provider = InMemoryLogRecordExporter(), LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    with TracerProvider(shutdown_on_exit=False).get_tracer("app").start_as_current_span("chat"):
        provider.get_logger("app").emit(LogRecord(event_name=name, body=body, attributes={"event.name": "older"}))

    ended = exporter.get_finished_logs()

    assert logs_from_proto(encode_logs(ended)) == list(map(log_of, ended))


# ── values of attributes ────────────────────────────────────────────────────────────────────────────────────


def nested(depth: int, *, in_arrays: bool = False) -> AnyValue:
    value = AnyValue(string_value="bottom")
    for _ in range(depth):
        outer = AnyValue()
        inner = outer.array_value.values.add() if in_arrays else outer.kvlist_value.values.add(key="k").value
        inner.CopyFrom(value)
        value = outer
    return value


def test_nesting_is_read_as_deep_as_allowed() -> None:
    read = value_from_proto(nested(ATTRIBUTE))

    for _ in range(ATTRIBUTE):
        read = read["k"]
    assert read == "bottom"


def test_deep_protobuf_values_are_not_kept() -> None:
    assert isinstance(value_from_proto(nested(ATTRIBUTE + 1, in_arrays=True)), CutText)


def test_an_empty_string_and_no_value_differ() -> None:
    assert value_from_proto(AnyValue(string_value="")) == ""
    assert value_from_proto(AnyValue()) is None


# ── decoded requests on their way to the trace book: in parts, without tearing traces apart ─────────────────


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
