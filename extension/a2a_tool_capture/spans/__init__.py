"""Reads the tool calls in OpenTelemetry spans and GenAI log events. Sans-io.

A *convention* is how one instrumentation writes a tool call into spans. An *observation* is one span read by a
convention; observations of the same call are *grouped* and *assembled* into one call, and completed from the LLM
*messages* in the spans.
"""
