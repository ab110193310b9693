"""Spans of ours redacted on their way out: paths hold ids that clients chose, and addresses are personal data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult


class RedactingSpanExporter(SpanExporter):
    """Hands spans to `exporter` with `redact` done to every text among their attributes, in the exporter's thread."""

    def __init__(self, exporter: SpanExporter, redact: Callable[[str], str]) -> None:
        self._exporter = exporter
        self._redact = redact

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([self._redacted(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def _redacted(self, span: ReadableSpan) -> ReadableSpan:
        attributes = {
            key: self._redact(value) if isinstance(value, str) else value
            for key, value in (span.attributes or {}).items()
        }
        return ReadableSpan(
            span.name,
            span.context,
            span.parent,
            span.resource,
            attributes,
            kind=span.kind,
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )
