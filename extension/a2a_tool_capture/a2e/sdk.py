"""A2E under the names of its documentation: `ToolAPI(client)` blocks, `ToolPlugin` has plain functions.

Code written for A2E imports from here in place of `a2e.caps.tools.client` and `a2e.caps.tools.plugin`.
"""

from .blocking import A2EClient
from .blocking import BlockingToolAPI as ToolAPI
from .blocking import BlockingToolPlugin as ToolPlugin
from .messages import (
    A2EEvent,
    EventKind,
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
from .messages import ErrorMessage as A2EError
from .plugin import A2EPlugin, ToolDeniedError
from .transport import InProcessTransport, host_process, serve_stdio

__all__ = [
    "A2EClient",
    "A2EError",
    "A2EEvent",
    "A2EPlugin",
    "EventKind",
    "InProcessTransport",
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
    "host_process",
    "serve_stdio",
]
