"""What the file of a Python agent imports that `a2a-eval-proxy run --agent python:FILE` drives.

Names and signatures are those of arksim's Python connector. Where arksim is not installed, `arksim_names` serves them
under arksim's module names, so that an agent written for it runs unchanged. `tracing` needs openai-agents.
"""

from __future__ import annotations

from ..models import ToolCall as ToolCall
from ..models import ToolCallSource as ToolCallSource
from ..spec import A2AToolCaptureExtension as A2AToolCaptureExtension
from .agent import AgentConfig, AgentResponse, BaseAgent, CustomConfig, recorder

__all__ = [
    "AgentConfig",
    "AgentResponse",
    "BaseAgent",
    "CustomConfig",
    "recorder",
]
