"""A real MCP client of a real MCP server, in one process; prints what the recorder saw."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.bridges.mcp import ToolCallSession
from bridging import common, example, forget, look_up, refund, request, ship
from mcp import Client
from mcp.server import MCPServer
from mcp.types import ImageContent


def picture() -> list[Any]:
    """A result that is no text."""
    return ["see", ImageContent(type="image", data="aGk=", mime_type="image/png")]


async def main() -> None:
    recorder = ToolCallRecorder()
    server = MCPServer("orders")
    for tool in (look_up, ship, refund, forget, picture):
        server.add_tool(tool)

    async with Client(server) as client:
        session = ToolCallSession(client, recorder)
        assert (await session.list_tools()).tools[0].name == "look_up"

        async def run(said: str) -> None:
            """All calls at once, as agents make them."""
            await asyncio.gather(*(session.call_tool(name, arguments) for name, arguments in json.loads(said)))

        async def run_session(said: str) -> None:
            """The lower-level class, with a time-out: the server waits for a second request, which never comes."""
            await ToolCallSession(client.session, recorder).call_tool("ship", {"count": 1}, 0.05)

        shown = example("ToolCallSession", server=server)

        async def run_example(said: str) -> None:
            assert "shipped" in await shown["look_up"]("ORD-1")

        report = await common(recorder, run)
        report["example"] = await request(shown["recorder"], run_example)
        report["picture"] = await request(recorder, run, ("picture", {}))
        report["unknown"] = await request(recorder, run, ("no_such_tool", {}))
        report["timed out"] = await request(recorder, run_session)
    print(json.dumps(report))


asyncio.run(main())
