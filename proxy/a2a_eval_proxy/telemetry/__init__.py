"""Our own telemetry: logs, counters, Prometheus metrics, OpenTelemetry export, live events.

*Counters* are plain numbers that the byte path increments. `start` decides whether anything is exported; the SDK of
OpenTelemetry is imported only then. The *problem log* writes one line for a problem that repeats.
"""
