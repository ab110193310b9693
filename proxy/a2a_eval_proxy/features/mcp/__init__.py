"""Runs and failed turns for a coding agent, over MCP (https://modelcontextprotocol.io)."""
