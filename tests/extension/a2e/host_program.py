"""An A2E host for the tests: a shop's tools over JSON lines on stdin and stdout, as a process of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from a2a_tool_capture.a2e import (
    EventKind,
    ToolDefinition,
    ToolDeniedError,
    ToolParameter,
    ToolPlugin,
    ToolResult,
    serve_stdio,
)


class Shop(ToolPlugin):
    name = "shop"

    def __init__(self) -> None:
        self.both = asyncio.Barrier(2)

    def list_tools(self) -> Sequence[ToolDefinition]:
        q = ToolParameter(name="q", description="What to look for", required=True)
        count = ToolParameter(name="count", type="integer")
        return [
            ToolDefinition(name="search", description="Finds goods", tags=("Read", "catalog"), input_parameters=(q,)),
            ToolDefinition(
                name="reserve", tags=("write",), input_parameters=(q, count), idempotent=True, toolkit="stock"
            ),
            ToolDefinition(name="refund", description="Pays back", tags=("write", "money"), defer_loading=True),
            *(
                ToolDefinition(name=name)
                for name in ("meet", "hang", "report", "print", "value", "whole", "junk", "die")
            ),
        ]

    async def execute(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        match tool_name:
            case "search":
                return {"found": [arguments["q"]]}
            case "reserve":
                raise RuntimeError("sold out")
            case "refund":
                raise ToolDeniedError("refunds are not allowed")
            case "meet":
                await self.both.wait()
                return {"met": True}
            case "hang":
                await asyncio.Event().wait()
            case "report":
                for number in range(arguments["events"]):
                    await asyncio.to_thread(self.emit, EventKind.PROGRESS, {"pct": number})
                self.emit(EventKind.LOG, {"level": "info", "message": "all done"})
            case "print":
                print('{"type": "tool/call/resp"}', flush=True)
                os.write(1, b"not for the agent\n")
            case "value":
                return "just a text"
            case "whole":
                return ToolResult(success=True, summary="as I said", truncated=True, exit_code=3, duration_ms=7)
            case "junk":
                return {"it": object()}
            case "die":
                os._exit(1)
        return {}


if __name__ == "__main__":
    asyncio.run(serve_stdio(Shop()))
