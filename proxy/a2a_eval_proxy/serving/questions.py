"""Questions of the main process to the serving processes, and their answers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection
from typing import Any

from .link import Link

ASK, ANSWER = "ask", "answer"
"""The kinds of these messages."""

WIRE, OPEN_TURNS = "wire", "open_turns"
"""Subjects of questions. Arguments and items are those of `DataPort.wire` and `DataPort.latest_open`."""

_ANSWER_S = 5.0
"""How long a process may take to answer; after that, what it has is not shown."""


class Questions:
    """Asks serving processes. Belongs to one event loop."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[list[dict[str, Any]]]] = {}

    async def ask(self, links: Collection[Link], subject: str, **question: Any) -> list[dict[str, Any]]:
        """The items of all answers of the processes at these links."""
        answers = {next(self._numbers): asyncio.get_running_loop().create_future() for _ in links}
        self._open |= answers
        try:
            for number, link in zip(answers, links, strict=True):
                link.send(ASK, number=number, subject=subject, question=question)
            done, _ = await asyncio.wait(answers.values(), timeout=_ANSWER_S) if answers else (set(), set())
        finally:
            for number in answers:
                self._open.pop(number, None)
        return [item for answer in done for item in answer.result()]

    def answered(self, message: dict[str, Any]) -> None:
        """Take the answer of a process."""
        answer = self._open.pop(message["number"], None)
        if answer is not None and not answer.done():
            answer.set_result(message["items"])
