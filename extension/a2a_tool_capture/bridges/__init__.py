"""Frameworks that know their tool calls, each bridged to a `ToolCallRecorder`.

One module a framework; each needs its framework installed. Public: `a2a_tool_capture.bridges.<framework>`. Imports
`recorder` and agent. Nothing imports this room.
"""
