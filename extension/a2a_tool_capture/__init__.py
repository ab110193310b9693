"""The A2A tool-call-capture extension, for agents and clients.

Importing this package requires only the standard library; names that serve or call agents import a2a-sdk when they
are first used.
"""

from typing import TYPE_CHECKING, Any

from .artifact_calls import read_tool_calls
from .merge import TaskMerger
from .models import Finding, Severity, ToolCall, ToolCallSource
from .reconciliation import reconcile
from .spec import METADATA_KEY, URI, A2AToolCaptureExtension, agent_extension

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .agent.asgi_gate import ActivationGate
    from .agent.executor import CapturingExecutor, declare_tool_calls
    from .agent.handler import CapturingRequestHandler, without_tool_calls
    from .agent.middleware import CapturingMiddleware
    from .agent.webhooks import GatedPushConfigStore
    from .client import CaptureClient
    from .recorder import ToolCallRecorder

_LAZY = {
    "ActivationGate": "agent.asgi_gate",
    "CaptureClient": "client",
    "CapturingExecutor": "agent.executor",
    "CapturingMiddleware": "agent.middleware",
    "CapturingRequestHandler": "agent.handler",
    "GatedPushConfigStore": "agent.webhooks",
    "ToolCallRecorder": "recorder",
    "declare_tool_calls": "agent.executor",
    "without_tool_calls": "agent.handler",
}

_NEWER_SDK = frozenset({"CaptureClient", "GatedPushConfigStore"})
"""Names that need a2a-sdk 1.x."""

__all__ = [
    "METADATA_KEY",
    "URI",
    "A2AToolCaptureExtension",
    "ActivationGate",
    "CaptureClient",
    "CapturingExecutor",
    "CapturingMiddleware",
    "CapturingRequestHandler",
    "Finding",
    "GatedPushConfigStore",
    "Severity",
    "TaskMerger",
    "ToolCall",
    "ToolCallRecorder",
    "ToolCallSource",
    "agent_extension",
    "declare_tool_calls",
    "read_tool_calls",
    "reconcile",
    "without_tool_calls",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        try:
            return getattr(import_module(f".{_LAZY[name]}", __name__), name)
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in ("a2a", "google"):
                raise
            wanted = "a2a-sdk 1.3 or newer" if name in _NEWER_SDK else "a2a-sdk"
            message = f"{name} needs {wanted}, which is not installed: pip install 'a2a-tool-capture[a2a-sdk]'"
            raise ImportError(f"{message} ({error})", name=error.name) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
