"""The floor of receiving traces: a process that does nothing but decode the bodies, with opentelemetry-proto.

Run as `python decode.py FILE`, the file holding bodies as `write_bodies` writes them, protobuf all of them.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def write_bodies(path: Path, contents: Iterable[bytes]) -> None:
    """Each content after its length in four bytes."""
    path.write_bytes(b"".join(len(content).to_bytes(4, "big") + content for content in contents))


def read_bodies(path: Path) -> Iterator[bytes]:
    data, position = path.read_bytes(), 0
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        yield data[position + 4 : end]
        position = end


def decode(contents: list[bytes]) -> int:
    """Spans in all the bodies."""
    spans = 0
    for content in contents:
        request = ExportTraceServiceRequest()
        request.ParseFromString(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)
        spans += sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
    return spans


if __name__ == "__main__":
    everything = list(read_bodies(Path(sys.argv[1])))
    decode(everything[:10])
    begun, begun_cpu = time.perf_counter(), time.process_time()
    decoded = decode(everything)
    elapsed_s, cpu_s = time.perf_counter() - begun, time.process_time() - begun_cpu
    print(json.dumps({"spans": decoded, "elapsed_s": elapsed_s, "cpu_s": cpu_s}))
