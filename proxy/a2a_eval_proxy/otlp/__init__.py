"""Receives OpenTelemetry data from agents over HTTP and gRPC, and forwards it to a collector.

The *intake* decodes a request, hands it to the sink and answers. The *trace service* is the sink: it puts spans into
the trace book. *Forwarding* sends requests on as they came. *Size limits* bound a body's memory before it is decoded.
"""
