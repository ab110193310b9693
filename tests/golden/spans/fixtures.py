"""The golden spans as tests read them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from a2a_eval_proxy.otlp.spans import logs_from_proto, spans_from_proto
from a2a_tool_capture.spans.model import LogEvent, Span
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Fixture:
    """One recorded run."""

    name: str
    path: Path

    @property
    def request(self) -> ExportTraceServiceRequest:
        return ExportTraceServiceRequest.FromString(self.path.read_bytes())

    @property
    def spans(self) -> list[Span]:
        return spans_from_proto(self.request)

    @property
    def logs(self) -> list[LogEvent]:
        path = self.path.with_suffix(".logs.pb")
        if not path.exists():
            return []
        return logs_from_proto(ExportLogsServiceRequest.FromString(path.read_bytes()))

    @property
    def expected(self) -> dict[str, Any]:
        path = self.path.parent / "expected" / f"{self.name}.json"
        return json.loads(path.read_text(encoding="utf-8"))


@cache
def fixtures() -> list[Fixture]:
    """Every recorded run, by name."""
    paths = [path for folder in (_HERE, _HERE / "more", _HERE / "served") for path in folder.glob("*.pb")]
    return [Fixture(path.stem, path) for path in sorted(paths) if not path.name.endswith(".logs.pb")]
