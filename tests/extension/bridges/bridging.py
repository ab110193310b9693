"""What the bridge programs share: tools, the page's example, requests, and the report that is printed as JSON.

The scripted models of the programs call the tools that the user's text names, all in one answer, then say "done".
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from a2a_tool_capture import ToolCallRecorder

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "extension/docs/frameworks/bridges.md"

Run = Callable[[str], Awaitable[None]]
"""Runs an agent on a user's text."""

meeting = asyncio.Barrier(2)


def look_up(order_id: str) -> dict[str, str]:
    """Where an order is."""
    return {"order": order_id, "status": "shipped"}


async def ship(count: int) -> str:
    """Ships; two requests do it at the same time."""
    await meeting.wait()
    return "x" * count


def refund(order_id: str) -> str:
    """Fails."""
    raise PermissionError(f"{order_id} cannot be refunded")


async def forget() -> None:
    """Gives nothing back."""


def text(*calls: tuple[str, dict[str, Any]]) -> str:
    """What a user says who wants these tools called."""
    return json.dumps(calls)


def example(word: str, **names: Any) -> dict[str, Any]:
    """The names that the page's example with `word` in it defines, given `names`."""
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if word in code]
    exec(compile(code, f"bridges.md: {word}", "exec", dont_inherit=True), names)
    return names


def page_example(page: str, replaced: Mapping[str, str], **names: Any) -> dict[str, Any]:
    """The names that agent.py of a framework's page defines with the extension, given `names`. It serves nothing."""
    sys.path.append(str(ROOT / "tests/e2e/frameworks"))
    from page_code import code_of

    server = ModuleType("server")
    server.Answering = server.serve = lambda *_: None  # type: ignore[attr-defined]
    sys.modules["server"] = server
    exec(compile(code_of(page, "+", replaced), f"{page}.md", "exec", dont_inherit=True), names)
    return names


async def request(recorder: ToolCallRecorder, run: Run, *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """The calls recorded in a request, and the exception that it raised."""
    raised = None
    with recorder.request() as recording:
        try:
            await run(text(*calls))
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
    assert recording is not None
    return {"calls": [call.to_dict() for call in recording.tool_calls], "raised": raised}


async def common(recorder: ToolCallRecorder, run: Run) -> dict[str, Any]:
    """What every bridge has to do, with an agent that has the tools above."""
    first, second = await asyncio.gather(
        *(
            request(recorder, run, ("look_up", {"order_id": order}), ("ship", {"count": count}), ("forget", {}))
            for order, count in (("ORD-1", 1), ("ORD-2", 2))
        )
    )
    failing = await request(recorder, run, ("refund", {"order_id": "ORD-3"}))
    return {"first": first, "second": second, "failing": failing}
