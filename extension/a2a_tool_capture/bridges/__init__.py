"""Bridges that record the tool calls of frameworks with a `ToolCallRecorder`.

One module per framework, which must be installed. Public: `a2a_tool_capture.bridges.<framework>`.
"""
