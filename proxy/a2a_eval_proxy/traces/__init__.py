"""Converts the spans of agents into tool calls, and finds the turn they belong to. Sans-io.

A *convention* is how one instrumentation writes a tool call into spans. An *observation* is one span read by a
convention; observations of the same call are *grouped* and *assembled* into one call. *Evidence* is all that the *trace
book* holds for a turn; *merge* adds it to the turn.
"""
