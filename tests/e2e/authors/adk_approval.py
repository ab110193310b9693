"""google-adk's page with a tool that needs the user's confirmation, and the scripted model for it."""

from __future__ import annotations

from adk import PAGE, model
from adk import REPLACED as AS_SHOWN
from google.adk.tools import FunctionTool

__all__ = ["PAGE", "REPLACED", "FunctionTool", "model"]

REPLACED = {**AS_SHOWN, "tools=[look_up": "tools=[FunctionTool(look_up, require_confirmation=True)"}
