"""A2E: tools behind typed messages, with recorded calls. Requires only the standard library.

The agent calls tools through a `ToolAPI`; a `ToolPlugin` on the host lists, searches and executes them. Between the two
is a transport: `InProcessTransport`, or JSON lines over a stream (`host_process`, `serve_stdio`).
"""

from .client import ToolAPI
from .messages import (
    A2EError,
    EventKind,
    ToolDefinition,
    ToolErrorCode,
    ToolEvent,
    ToolParameter,
    ToolResult,
)
from .plugin import ToolDeniedError, ToolPlugin
from .transport import InProcessTransport, host_process, serve_stdio

__all__ = [
    "A2EError",
    "EventKind",
    "InProcessTransport",
    "ToolAPI",
    "ToolDefinition",
    "ToolDeniedError",
    "ToolErrorCode",
    "ToolEvent",
    "ToolParameter",
    "ToolPlugin",
    "ToolResult",
    "host_process",
    "serve_stdio",
]
