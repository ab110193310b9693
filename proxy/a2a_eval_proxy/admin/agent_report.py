"""How each agent behind the proxy does: whether it answers, how its last turns ended, where its tool calls are seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tool_call_evaluators.visibility import Calls

from ..scoring.agent_scoring import Scoring
from ..store import Store, StoreError, TurnQuery
from ..store.base import TurnJson
from .agent_status import AgentStatus

Health = Literal["unreachable", "no card", "failing", "failed lately", "calls not visible", "ok", "no turns"]
FAILS_NOW: tuple[Health, ...] = ("unreachable", "no card", "failing")
_ORDER: tuple[Health, ...] = (*FAILS_NOW, "failed lately", "calls not visible", "no turns", "ok")

KEPT = 20
"""The newest turns of an agent that say how it does."""


class RecentTurn(NamedTuple):
    turn_id: str
    started_at: str
    verdict: str
    unseen: bool
    """Whether it may have tool calls that are not visible."""

    @classmethod
    def of(cls, turn: TurnJson) -> RecentTurn:
        """From its `turn_summary`."""
        return cls(turn["turn_id"], turn["started_at"], turn["verdict"], turn["calls"] == Calls.UNKNOWN)


async def recent_turns(store: Store, agent: str) -> list[RecentTurn]:
    """The newest scored turns of an agent ("": of all), newest first; [] while the store is away, as pages say."""
    newest = TurnQuery(agent=agent or None, status="done", limit=KEPT, newest_first=True, summary=True)
    try:
        found = await store.turns(newest)
    except StoreError:
        return []
    return sorted(map(RecentTurn.of, found.items), key=lambda turn: turn.started_at, reverse=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    name: str
    """"" for the only one."""
    status: AgentStatus
    address: str
    """Where clients reach it through the proxy; "" without traffic."""
    run: str
    scoring: Scoring
    traces: bool | None
    """Whether spans of its turns have come; None where the proxy receives none."""
    open_turns: int | None
    queue_depth: int | None
    """Turns that wait to be scored. Both None without traffic."""
    turns: Sequence[RecentTurn]
    """The newest first, at most KEPT."""

    @property
    def health(self) -> Health:
        if self.status.level == "error":
            return "no card" if self.status.reachable else "unreachable"
        if self.turns and self.turns[0].verdict in ("failed", "errored"):
            return "failing"
        if self.failed:
            return "failed lately"
        if self.status.level == "warning" and (self.unseen or not self.turns):
            return "calls not visible"
        return "ok" if self.turns else "no turns"

    @property
    def failed(self) -> int:
        """How many of `turns` failed, or could not be scored."""
        return sum(turn.verdict in ("failed", "errored") for turn in self.turns)

    @property
    def unseen(self) -> int:
        """How many of `turns` may have tool calls that are not visible."""
        return sum(turn.unseen for turn in self.turns)

    @property
    def why(self) -> str:
        """What its health is due to, in words; "" if nothing is wrong."""
        match self.health:
            case "unreachable" | "no card":
                return self.status.text
            case "failing":
                return f"its last turn {self.turns[0].verdict}" + (
                    f", as did {self.failed} of the last {len(self.turns)}" if self.failed > 1 else ""
                )
            case "failed lately":
                return f"{self.failed} of its last {len(self.turns)} turns failed"
            case "calls not visible":
                return self.status.text
        return ""

    def to_dict(self) -> dict[str, Any]:
        """As in /api/agents."""
        status, last = self.status, next(iter(self.turns), None)
        suite = self.scoring.suite
        return {
            "name": self.name or None,
            "url": self.address,
            "upstream": status.url,
            "health": self.health,
            "why": self.why,
            "repair": status.repair,
            "card": {"name": status.name, "bindings": status.bindings} if status.name else None,
            "extension": status.extension,
            "calls": status.text,
            "traces": self.traces,
            "run": self.run,
            "suite": suite.name if suite else None,
            "suite_file": self.scoring.suite_file,
            "open_turns": self.open_turns,
            "queue_depth": self.queue_depth,
            "recent": {"turns": len(self.turns), "failed": self.failed, "calls_not_visible": self.unseen},
            "last_turn": last and {"turn_id": last.turn_id, "started_at": last.started_at, "verdict": last.verdict},
        }


def failing_first(reports: Iterable[AgentReport]) -> list[AgentReport]:
    return sorted(reports, key=lambda report: (_ORDER.index(report.health), report.name))
