"""The store of a turn book in tests: notes what it is asked, and answers nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, ToolCall


@dataclass
class AskedStore:
    """A `TaskStore`. `asked` receives tasks, `keeps` copies of open turns, `late` tasks and codes of findings."""

    asked: list[str] = field(default_factory=list)
    keeps: Callable[[Turn], bool] = lambda turn: False
    late: list[tuple[str, str]] = field(default_factory=list)

    def look_up(self, task_id: str) -> None:
        self.asked.append(task_id)

    def keep_open(self, turn: Turn) -> bool:
        return self.keeps(turn)

    def found_late(self, task_id: str, finding: Finding, calls: Sequence[ToolCall] = ()) -> None:
        self.late.append((task_id, finding.code))
