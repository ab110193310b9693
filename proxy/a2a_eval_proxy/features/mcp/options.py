"""The options of `mcp`."""

from __future__ import annotations

from ...settings import parsing as types
from ...settings.options import option
from ...settings.parts import PluginOption, StoreOption


class McpOptions(PluginOption, StoreOption):
    suite: str | None = option(types.FILE, "Suite file with the cases to run, and what they expect.")
    agent: str | None = option(types.AGENT, "URL of the agent, or as for `run`. Default: from the suite.")
    allow_accept: bool = option(types.FLAG, "Allow the coding agent to change what the suite expects.")
