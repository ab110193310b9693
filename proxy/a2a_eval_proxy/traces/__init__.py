"""Finds the turn to which the traces of agents belong, and completes it from them. Sans-io.

It owns the spans of open and recent turns, in bounded memory (`trace_book`). It is given turns as they open and close,
and the spans that `otlp` has received. It hands on the *evidence* of a turn, which `merge` adds to its calls and its
*usage* as `a2a_tool_capture.spans` reads them.
"""
