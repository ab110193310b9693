"""A2E: tools behind typed messages, with recorded calls. Requires only the standard library.

The agent calls tools through a `ToolAPI`; a `ToolPlugin` on the host lists, searches and executes them. Between the two
is a transport: `InProcessTransport`, or JSON lines over a stream (`host_process`, `serve_stdio`). For code without
asyncio, and for the messages: `a2a_tool_capture.a2e.sdk`, under A2E's names.
"""

from .client import ToolAPI
from .messages import (
    A2EError,
    EventKind,
    HostGoneError,
    HostRefusedError,
    ProtocolError,
    ToolDefinition,
    ToolErrorCode,
    ToolEvent,
    ToolParameter,
    ToolResult,
)
from .plugin import ToolDeniedError, ToolPlugin
from .transport import InProcessTransport, StreamTransport, host_process, serve, serve_stdio

__all__ = [
    "A2EError",
    "EventKind",
    "HostGoneError",
    "HostRefusedError",
    "InProcessTransport",
    "ProtocolError",
    "StreamTransport",
    "ToolAPI",
    "ToolDefinition",
    "ToolDeniedError",
    "ToolErrorCode",
    "ToolEvent",
    "ToolParameter",
    "ToolPlugin",
    "ToolResult",
    "host_process",
    "serve",
    "serve_stdio",
]
