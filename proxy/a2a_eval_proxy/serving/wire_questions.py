"""The main process asks the serving processes for the wire of a turn."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Sequence
from typing import Any

from .link import Link

WIRE = "wire"
"""The kind of the question and of its answer."""

_ANSWER_S = 5.0
"""How long a process may take to answer; after that, what it has is not shown."""


class WireQuestions:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[list[dict[str, Any]]]] = {}

    async def ask(
        self, links: Collection[Link], turn_id: str, tasks: Sequence[str], began: float, ended: float | None
    ) -> list[dict[str, Any]]:
        """The exchanges of a turn that the processes at these links have, see `relay.wire_log.WireLog.of_turn`."""
        answers = {next(self._numbers): asyncio.get_running_loop().create_future() for _ in links}
        self._open |= answers
        try:
            for number, link in zip(answers, links, strict=True):
                question = {"turn_id": turn_id, "tasks": list(tasks), "began": began, "ended": ended}
                link.send(WIRE, number=number, question=question)
            done, _ = await asyncio.wait(answers.values(), timeout=_ANSWER_S) if answers else (set(), set())
        finally:
            for number in answers:
                self._open.pop(number, None)
        return [exchange for answer in done for exchange in answer.result()]

    def answered(self, message: dict[str, Any]) -> None:
        """Take the answer of a process."""
        answer = self._open.pop(message["number"], None)
        if answer is not None and not answer.done():
            answer.set_result(message["exchanges"])
