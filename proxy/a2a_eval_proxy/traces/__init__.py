"""Finds the turn to which the traces of agents belong, and completes it from them. Sans-io.

*Evidence* is all that the *trace book* holds for a turn; *merge* adds the calls that `a2a_tool_capture.spans` reads
in it, and its *usage*.
"""
