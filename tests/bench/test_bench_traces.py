"""The spans that are posted, and the floor they are held against."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
from a2a_eval_proxy.otlp.decoding import decoding, read_request
from a2a_eval_proxy.protocol.content_coding import granted
from bench.otlp import Body, bodies, trace_ids
from bench.subjects import decode
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


def spans_in(body: Body) -> list[Span]:
    content = granted(decoding(body.content, body.headers.get("Content-Encoding", ""), 10_000_000))
    request = read_request(content, ExportTraceServiceRequest, body.headers["Content-Type"])
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


@pytest.mark.parametrize("encoding", ["protobuf", "gzip", "json"])
def test_bodies_hold_as_many_spans_as_they_say_in_traces_of_their_own(encoding: str) -> None:
    ids = list(islice(trace_ids(), 40))
    batches = list(bodies(64, iter(ids), encoding))
    found = [spans_in(body) for body in batches]

    assert [len(spans) for spans in found] == [body.spans for body in batches]
    assert {body.spans for body in batches[:-1]} == {64}
    assert {span.trace_id for spans in found for span in spans} == set(ids)
    keys = [(span.trace_id, span.span_id) for spans in found for span in spans]
    assert len(keys) == len(set(keys))


def test_every_encoding_holds_the_same_spans() -> None:
    ids = list(islice(trace_ids(), 20))
    plain, compressed, as_json = ([*bodies(50, iter(ids), encoding)] for encoding in ("protobuf", "gzip", "json"))

    assert [gzip.decompress(body.content) for body in compressed] == [body.content for body in plain]
    assert [spans_in(body) for body in as_json] == [spans_in(body) for body in plain]


def test_the_floor_decodes_every_span(tmp_path: Path) -> None:
    batches = [*bodies(8, islice(trace_ids(), 10)), *bodies(8, islice(trace_ids(), 10), "gzip")]
    decode.write_bodies(tmp_path / "bodies", (body.content for body in batches))

    done = subprocess.run(
        [sys.executable, decode.__file__, str(tmp_path / "bodies")], capture_output=True, text=True, check=True
    )

    assert json.loads(done.stdout)["spans"] == sum(body.spans for body in batches)
