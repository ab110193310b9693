"""The OTLP/gRPC receiver: exporters of the OpenTelemetry SDK, and senders that misbehave."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from a2a_eval_proxy.net.grpc_wire import GrpcStatus
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_eval_proxy.otlp.grpc_receiver import GrpcReceiver
from a2a_eval_proxy.otlp.intake import LOGS, METRICS, TRACES, Intake
from h2.events import ResponseReceived, StreamEnded, StreamReset
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from support.otlp import CollectingSink, export_request
from support.raw_http2 import RawClient, framed

grpc = pytest.importorskip("grpc")
exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")

BODY = export_request(["a", "b"]).SerializeToString()


@pytest.fixture
def sink():
    return CollectingSink()


@asynccontextmanager
async def receiving(sink, *, max_bytes=1024 * 1024, forward=None, counts=None, **options):
    receiver = GrpcReceiver(Intake(sink, max_bytes=max_bytes, forward=forward, counts=counts, **options))
    server = HttpServer(None, "127.0.0.1:0", streams=receiver)
    await server.start()
    try:
        yield server.address
    finally:
        await server.stop()


async def export(address, body, signal=TRACES, compression=None):
    """Raw bytes to an Export method: (status code, response or details)."""
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(f"/{signal.service}/Export")(body, compression=compression)
        try:
            return grpc.StatusCode.OK, await call
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details()


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip])
async def test_spans_of_the_sdk_arrive(sink, compression):
    async with receiving(sink) as address:
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = exporters.OTLPSpanExporter(address, insecure=True, compression=compression)
        provider.add_span_processor(BatchSpanProcessor(exporter, max_export_batch_size=64))
        tracer = provider.get_tracer("agent")
        for number in range(500):
            tracer.start_span(f"tool {number}").end()
        await asyncio.to_thread(provider.shutdown)
    assert [span.name for span in sink.spans] == [f"tool {number}" for number in range(500)]
    assert sink.sizes == [request.ByteSize() for request in sink.trace_requests]


async def test_all_three_services_are_there(sink):
    async with receiving(sink) as address:
        for signal in (TRACES, LOGS, METRICS):
            assert await export(address, b"", signal) == (grpc.StatusCode.OK, b"")
    assert (len(sink.trace_requests), len(sink.log_requests)) == (1, 1)


async def test_hostile_messages_are_refused(sink):
    async with receiving(sink) as address:
        code, details = await export(address, b"garbage")
        assert (code, "not a protobuf message" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        code, details = await export(address, bytes(1024 * 1024 + 1))
        assert (code, "exceeds 1048576 bytes" in details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert (await export(address, BODY, compression=grpc.Compression.Deflate))[0] == grpc.StatusCode.OK
        bomb = await export(address, bytes(64 * 1024 * 1024), compression=grpc.Compression.Gzip)
        assert bomb[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await export(address, BODY))[0] == grpc.StatusCode.OK
    assert sink.sizes == [len(BODY)] * 2


async def test_what_is_no_export_is_refused(sink):
    """Each with its status; the port serves on."""

    def refused(address, path, *messages, fields=()):
        with RawClient(address) as client:
            stream_id = client.begin(path, [*fields], end=not messages)
            for message in messages:
                client.h2.send_data(stream_id, message, end_stream=message is messages[-1])
            events = client.until(stream_id, StreamEnded, StreamReset)
            return dict(next(event for event in events if isinstance(event, ResponseReceived)).headers)

    traces = f"/{TRACES.service}/Export".encode()
    wrong = [
        (GrpcStatus.UNIMPLEMENTED, b"/other/\xff", [framed(b"")], []),
        (GrpcStatus.INVALID_ARGUMENT, traces, [], []),
        (GrpcStatus.INVALID_ARGUMENT, traces, [framed(b"")[:3]], []),
        (GrpcStatus.INVALID_ARGUMENT, traces, [framed(b""), framed(b"")], []),
        (GrpcStatus.UNIMPLEMENTED, traces, [framed(b"x", 1)], [(b"grpc-encoding", b"zstd")]),
        (GrpcStatus.INVALID_ARGUMENT, traces, [framed(b"x", 1)], [(b"grpc-encoding", b"gzip")]),
    ]
    async with receiving(sink) as address:
        for status, path, messages, fields in wrong:
            head = await asyncio.to_thread(refused, address, path, *messages, fields=fields)
            assert head[b"grpc-status"] == b"%d" % status, (path, messages, head)
        assert (await export(address, BODY))[0] == grpc.StatusCode.OK
    assert len(sink.trace_requests) == 1
