"""OTLP bodies as agents export them (the golden spans, repeatedly, in traces of their own), and their exporters."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import count, cycle
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from .programs import LoadError
from .targets import Running

GOLDEN = Path(__file__).parents[2] / "golden" / "spans"
CONNECTIONS = 4
"""Exporters at once; each waits for its answer before it sends the next batch, as OpenTelemetry SDKs do."""

_POLL_S = 0.02
_COME_BACK_S = 0.05
"""Before a batch is sent again that was answered 503: what is measured is the proxy, not an exporter's patience."""


class Body(NamedTuple):
    """One export request: what is posted, how many spans it holds, its size before compression."""

    content: bytes
    spans: int
    size: int
    headers: dict[str, str]


def trace_ids() -> Iterator[bytes]:
    """Trace ids without end, none twice in a process."""
    return (number.to_bytes(16, "big") for number in _numbers)


def bodies(spans_per_body: int, ids: Iterator[bytes], encoding: str = "protobuf") -> Iterator[Body]:
    """Requests of `spans_per_body` spans each, until `ids` end: the last may hold fewer. A trace may cross them.

    `encoding` is `protobuf`, `gzip` (protobuf, compressed) or `json`.
    """
    request, held = ExportTraceServiceRequest(), 0
    for trace_id, trace in zip(ids, cycle(_golden_traces()), strict=False):
        for part in trace:
            spans = part.scope_spans[0].spans
            begin = 0
            while begin < len(spans):
                taken = spans[begin : begin + spans_per_body - held]
                begin += len(taken)
                held += len(taken)
                _add(request, part, taken, trace_id)
                if held == spans_per_body:
                    yield _body(request, held, encoding)
                    request, held = ExportTraceServiceRequest(), 0
    if held:
        yield _body(request, held, encoding)


_numbers = count(1 << 100)


def _golden_traces() -> list[list[ResourceSpans]]:
    """Each recorded trace, in parts of one resource and one scope."""
    traces: dict[tuple[str, bytes], list[ResourceSpans]] = {}
    for path in sorted(path for path in GOLDEN.glob("*.pb") if not path.name.endswith(".logs.pb")):
        for of_resource in ExportTraceServiceRequest.FromString(path.read_bytes()).resource_spans:
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    parts = traces.setdefault((path.name, span.trace_id), [])
                    if not parts or parts[-1].scope_spans[0].scope != of_scope.scope:
                        parts.append(ResourceSpans(resource=of_resource.resource))
                        parts[-1].scope_spans.add(scope=of_scope.scope)
                    parts[-1].scope_spans[0].spans.append(span)
    return list(traces.values())


def _add(request: ExportTraceServiceRequest, part: ResourceSpans, spans: Any, trace_id: bytes) -> None:
    added = request.resource_spans.add(resource=part.resource).scope_spans.add(scope=part.scope_spans[0].scope).spans
    added.extend(spans)
    for span in added:
        span.trace_id = trace_id


def _body(request: ExportTraceServiceRequest, spans: int, encoding: str) -> Body:
    if encoding == "json":
        content = json.dumps(_json(request)).encode()
        return Body(content, spans, len(content), {"Content-Type": "application/json"})
    content = request.SerializeToString()
    headers = {"Content-Type": "application/x-protobuf"}
    if encoding == "gzip":
        return Body(gzip.compress(content, 6), spans, len(content), headers | {"Content-Encoding": "gzip"})
    return Body(content, spans, len(content), headers)


def _json(request: ExportTraceServiceRequest) -> dict[str, Any]:
    """The request in OTLP's JSON, which has ids in hexadecimal where protobuf's has Base64."""
    data: dict[str, Any] = MessageToDict(request)
    for of_resource in data["resourceSpans"]:
        for span in of_resource["scopeSpans"][0]["spans"]:
            for key in ("traceId", "spanId", "parentSpanId"):
                if key in span:
                    span[key] = base64.b64decode(span[key]).hex()
    return data


def post_all(port: int, bodies: Iterable[Body], *, patience_s: float = 60.0) -> int:
    """Post every body to the OTLP port and return the number of their spans.

    Raises LoadError where one is not answered with 200, or for so long with 503.
    """
    todo, lock = iter(bodies), threading.Lock()
    sent: list[int] = []
    problems: list[str] = []

    def take() -> Iterator[Body]:
        while not problems:
            with lock:
                body = next(todo, None)
            if body is None:
                return
            yield body

    def export() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            for body in take():
                _post(connection, body, time.monotonic() + patience_s)
                sent.append(body.spans)
        except (OSError, http.client.HTTPException, LoadError) as error:
            problems.append(str(error) or repr(error))
        finally:
            connection.close()

    exporters = [threading.Thread(target=export) for _ in range(CONNECTIONS)]
    for exporter in exporters:
        exporter.start()
    for exporter in exporters:
        exporter.join()
    if problems:
        raise LoadError(problems[0])
    return sum(sent)


def _post(connection: http.client.HTTPConnection, body: Body, give_up: float) -> None:
    while True:
        connection.request("POST", "/v1/traces", body.content, body.headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status == 200:
            return
        if answer.status != 503 or time.monotonic() > give_up:
            raise LoadError(f"POST /v1/traces was answered {answer.status}: {said[:200]!r}")
        time.sleep(_COME_BACK_S)


def wait_until_taken(proxy: Running, spans: int, timeout_s: float = 120.0) -> None:
    """Wait until that number of spans has been read since the start. Raises LoadError where that takes too long."""
    give_up = time.monotonic() + timeout_s
    while (taken := proxy.counter("spans")) < spans:
        if time.monotonic() > give_up:
            raise LoadError(f"the proxy has read {taken} of {spans} spans in {timeout_s:g} s")
        time.sleep(_POLL_S)
