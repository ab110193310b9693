"""Receives OpenTelemetry data from agents over HTTP and gRPC, and forwards it to a collector.

It owns the ports of exporters (`receivers`) and the memory of their requests: the *intake* reads a body within its
limits, decodes it, forwards it as it came, hands it to the *trace service* and answers. The trace service is given open
turns and hands their spans to the trace book.
"""
