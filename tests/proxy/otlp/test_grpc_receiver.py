"""The OTLP/gRPC receiver: exporters of the OpenTelemetry SDK, and senders that misbehave."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from a2a_eval_proxy.errors import GrpcMissingError, ListenError
from a2a_eval_proxy.net.ports import Ports
from a2a_eval_proxy.otlp.forwarding import OtlpForwarder
from a2a_eval_proxy.otlp.grpc_receiver import grpc_receiver
from a2a_eval_proxy.otlp.intake import LOGS, METRICS, TRACES, Intake, Rejected
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from support.otlp import CollectingSink, export_request, receiver
from support.patience import PATIENCE_S
from support.raw_grpc import PATH_NOT_UTF8, deliver

grpc = pytest.importorskip("grpc")
exporters = pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.trace_exporter")

BODY = export_request(["a", "b"]).SerializeToString()


@pytest.fixture
def sink():
    return CollectingSink()


@asynccontextmanager
async def receiving(sink, *, max_bytes=1024 * 1024, forward=None):
    server = grpc_receiver(Intake(sink, max_bytes=max_bytes, forward=forward), "127.0.0.1:0")
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


async def test_partial_success_says_how_many_and_why(sink):
    sink.rejects = Rejected(2, "no trace id")
    async with receiving(sink) as address:
        _, response = await export(address, BODY)
    partial = ExportTraceServiceResponse.FromString(response).partial_success
    assert (partial.rejected_spans, partial.error_message) == (2, "no trace id")


async def test_hostile_messages_are_refused(sink):
    async with receiving(sink) as address:
        code, details = await export(address, b"garbage")
        assert (code, "not a protobuf message" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        code, details = await export(address, b"\x0a\x00" * 500_000)
        assert (code, "too many messages" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
        assert (await export(address, bytes(1024 * 1024 + 1)))[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
        bomb = await export(address, bytes(64 * 1024 * 1024), compression=grpc.Compression.Gzip)
        assert bomb[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await export(address, BODY))[0] == grpc.StatusCode.OK
    assert len(sink.trace_requests) == 1


async def test_a_busy_sink_asks_the_sender_to_come_back(sink):
    sink.busy = True
    async with receiving(sink) as address:
        assert (await export(address, BODY))[0] == grpc.StatusCode.UNAVAILABLE  # which exporters retry
    assert not sink.trace_requests


async def test_what_comes_is_counted(sink):
    counts = Counter()
    server = grpc_receiver(Intake(sink, max_bytes=1024, counts=counts), "127.0.0.1:0")
    await server.start()
    await export(server.address, BODY)
    await export(server.address, b"garbage")
    await server.stop()
    assert counts == {("grpc", "accepted"): 1, ("grpc", "rejected"): 1}


async def test_a_sink_that_raises_is_told_to_the_sender(sink):
    sink.fail = lambda: {}["bug"]
    async with receiving(sink) as address:
        code, details = await export(address, BODY)
        assert (code, "bug" in details) == (grpc.StatusCode.INTERNAL, False)


async def test_what_came_by_grpc_goes_on_by_http(sink):
    far = CollectingSink()
    async with receiver(far) as url:
        forward = OtlpForwarder(url)
        forward.start()
        async with receiving(sink, forward=forward) as address:
            assert (await export(address, BODY, compression=grpc.Compression.Gzip))[0] == grpc.StatusCode.OK
        await forward.close(5.0)
    assert far.trace_requests == sink.trace_requests == [export_request(["a", "b"])]


async def test_a_port_in_use_is_said(sink, capfd):
    """In one sentence: gRPC itself would print another."""
    async with receiving(sink) as address:
        capfd.readouterr()
        with pytest.raises(ListenError, match=f"cannot listen on {address}: Address already in use"):
            await grpc_receiver(Intake(sink, max_bytes=1024), address).start()
        assert address not in capfd.readouterr().err


async def test_a_server_that_a_call_ends_is_started_again(sink):
    problems = []
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        ports = Ports(stack, problems.append)
        intake = Intake(sink, max_bytes=1024)
        server = await ports.open(lambda: grpc_receiver(intake, "127.0.0.1:0"), "--otlp-grpc")
        address = server.address
        await asyncio.to_thread(deliver, address, PATH_NOT_UTF8)
        while not problems or problems[-1]:
            await asyncio.sleep(0)
        assert problems == [[f"nothing listens on {address} (--otlp-grpc); the log says why"], []]
        assert (await export(address, BODY))[0] == grpc.StatusCode.OK


async def test_without_grpcio_the_error_says_what_to_install(sink, monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(GrpcMissingError, match=r"a2a-eval-proxy\[grpc\]"):
        grpc_receiver(Intake(sink, max_bytes=1024), "127.0.0.1:4317")
