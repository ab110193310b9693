"""Traces from where they are: after its end, the trace of a turn is asked for by its id, at Tempo, at Jaeger, or in a
file of the OpenTelemetry Collector. What comes is read and merged as traces that are received."""
