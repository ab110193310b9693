"""A2E: tools behind typed messages, with recorded calls. Requires only the standard library.

The agent calls tools through a `ToolAPI`; a `ToolPlugin` on the host lists, searches and executes them. Between the two
is a transport: `InProcessTransport`, or JSON lines over a stream (`host_process`, `serve_stdio`). For code without
asyncio: `A2EClient`, `BlockingToolAPI`, `BlockingToolPlugin`, which `a2a_tool_capture.a2e.sdk` has under A2E's names.
"""

from .blocking import A2EClient, BlockingToolAPI, BlockingToolPlugin
from .client import ToolAPI
from .messages import (
    A2EError,
    A2EEvent,
    ErrorMessage,
    EventKind,
    HostGoneError,
    HostRefusedError,
    ProtocolError,
    ToolCallRequest,
    ToolCallResponse,
    ToolDefinition,
    ToolErrorCode,
    ToolEvent,
    ToolListRequest,
    ToolListResponse,
    ToolParameter,
    ToolResult,
)
from .plugin import A2EPlugin, ToolDeniedError, ToolPlugin
from .transport import InProcessTransport, StreamTransport, Transport, host_process, serve, serve_stdio

__all__ = [
    "A2EClient",
    "A2EError",
    "A2EEvent",
    "A2EPlugin",
    "BlockingToolAPI",
    "BlockingToolPlugin",
    "ErrorMessage",
    "EventKind",
    "HostGoneError",
    "HostRefusedError",
    "InProcessTransport",
    "ProtocolError",
    "StreamTransport",
    "ToolAPI",
    "ToolCallRequest",
    "ToolCallResponse",
    "ToolDefinition",
    "ToolDeniedError",
    "ToolErrorCode",
    "ToolEvent",
    "ToolListRequest",
    "ToolListResponse",
    "ToolParameter",
    "ToolPlugin",
    "ToolResult",
    "Transport",
    "host_process",
    "serve",
    "serve_stdio",
]
