"""Our own telemetry: logs, counters, Prometheus metrics, OpenTelemetry export, live events.

It owns the numbers that all rooms count, and the log of live events. It is given counts, and turns by the rooms that
open, close and score them (`turn_listener`). It hands them to Prometheus, to clients that listen, and, where the
environment names an endpoint, to OpenTelemetry's exporters, whose SDK is imported only then.
"""
