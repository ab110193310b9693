"""What the admin port, the pages and the metrics need of a running proxy."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .admin.agent_status import AgentStatus, recent_turns
from .admin.control import MAX_OPEN, Control
from .admin.guard import Pages
from .agent_line import AgentLine
from .net.http_server import reachable
from .otlp.trace_service import Tracing
from .relay.wire_log import WireRecord
from .runs.live_runs import LiveRuns
from .scoring.agent_scoring import Scoring
from .scoring.pipeline import Pipeline
from .serving.data_port import DataPort
from .settings.settings import Settings
from .turn import Turn

_CLOSE_STORE_S = 1.0
"""For a last attempt to write, where the time for scoring is used up."""


@dataclass(eq=False, kw_only=True)
class ProxyControl(Control):
    """That of a proxy with traffic. All its parts share one event loop."""

    settings: Settings
    tracing: Tracing | None
    lines: dict[str, AgentLine] = field(init=False, default_factory=dict)
    """By the name of the agent; that of `--upstream` has none."""
    serving: DataPort = field(init=False)
    admin_url: str = field(init=False)
    trace_url: str | None = field(init=False)
    pages: Pages | None = field(init=False)
    not_ready: str = "the proxy is starting"
    """Why no client is to begin to use the proxy; "" once it is ready."""
    _finish_by: float = 0.0

    def __post_init__(self) -> None:
        self.trace_url, self.allow_plugins = self.settings.trace_url, self.settings.allow_plugins
        self.live_runs = LiveRuns(self.store, self._judges_live, self.judged_by)

    def _judges_live(self, turn: Turn) -> bool:
        """Whether the suite of the turn's agent judges the run of that turn: of its traffic, or of one of its cases. A
        suite without cases, of which none can be missing, judges all that it scores."""
        scoring = self.scorings.get(turn.agent_name or "", self.common)
        line = self.lines.get(turn.agent_name or "")
        return scoring.suite is not None and (
            not scoring.suite.cases
            or (line is not None and line.agent.settings.run == turn.run)
            or scoring.cases.is_of_suite(turn.case_id)
        )

    @cached_property
    def scorings(self) -> Mapping[str, Scoring]:
        return {name: line.scoring for name, line in self.lines.items() if name}

    async def agent_statuses(self, names: Collection[str] | None = None, *, wait: bool = True) -> list[AgentStatus]:
        wanted = {name: line for name, line in self.lines.items() if names is None or name in names}
        statuses, recent = await asyncio.gather(
            asyncio.gather(*(line.status.status(wait=wait) for line in wanted.values())),
            asyncio.gather(*(recent_turns(self.store, name) for name in wanted)),
        )
        tracing = self.tracing
        return [
            AgentStatus(
                name=name,
                status=status,
                address=f"{self.proxy_url}{line.agent.path}",
                run=line.agent.settings.run,
                scoring=line.scoring,
                traces=None if tracing is None else tracing.has_sent(name or None),
                open_turns=len(line.capture.open_turns),
                queue_depth=line.pipeline.depth,
                turns=turns,
            )
            for (name, line), status, turns in zip(wanted.items(), statuses, recent, strict=True)
        ]

    def page_address(self) -> str | None:
        """Where a browser opens the pages, if there are any; with an admin token, a new link that works once."""
        return self.pages.address(reachable(self.admin_url)) if self.pages else None

    @property
    def queue_depth(self) -> int:
        """Turns waiting to be scored."""
        return sum(line.pipeline.depth for line in self.lines.values())

    @property
    def open_turns(self) -> int:
        """Number of turns not yet closed."""
        return sum(len(line.capture.open_turns) for line in self.lines.values())

    @property
    def agent_queue_depth(self) -> dict[str, int]:
        """Of each of several agents: turns waiting to be scored."""
        return {name: line.pipeline.depth for name, line in self.lines.items() if name}

    @property
    def agent_open_turns(self) -> dict[str, int]:
        """Of each of several agents: turns not yet closed."""
        return {name: len(line.capture.open_turns) for name, line in self.lines.items() if name}

    async def flush(self, timeout_s: float) -> dict[str, int]:
        unfolded = 0
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(line.settled() for line in self.lines.values()))
                await self.live_runs.drained()
        except TimeoutError:
            unfolded = sum(line.capture.behind for line in self.lines.values())
        answered = sum(line.capture.number_answered for line in self.lines.values())
        return {"pending": self.queue_depth + answered + unfolded, "open": self.open_turns}

    async def turns_in_progress(self, most: int = MAX_OPEN, turn_id: str | None = None) -> list[dict[str, Any]]:
        found = [turn for line in self.lines.values() for turn in line.capture.latest_open(most, turn_id)]
        newest = heapq.nlargest(most, found, key=lambda turn: turn.started_at)
        shown: dict[str, dict[str, Any]] = {}
        for name, line in self.lines.items():
            turns = [turn for turn in newest if (turn.agent_name or "") == name]
            shown |= {turn["turn_id"]: turn for turn in await line.events.open_turns(turns)}
        return [shown[turn.turn_id] for turn in newest if turn.turn_id in shown]

    def wire(
        self, agent_name: str, turn_id: str, tasks: Sequence[str], began: float, ended: float | None
    ) -> list[WireRecord]:
        line = self.lines.get(agent_name)
        return [] if line is None else line.relay.wire(turn_id, tasks, began, ended)

    def pipeline_of(self, turn: Mapping[str, Any]) -> Pipeline | None:
        line = self.lines.get(turn.get("agent_name") or "")
        return line.pipeline if line is not None and self.settings.evaluate else None

    def remarks(self) -> list[str]:
        return self.store.health.remarks

    def problems(self) -> list[str]:
        return [self.not_ready] if self.not_ready else []

    def watch_turns(self, live: bool) -> None:
        """Report the changes of open turns while a client listens to them."""
        for line in self.lines.values():
            line.capture.report_changes(live)

    def retire(self) -> None:
        """The proxy serves, but no client is to begin to use it."""
        self.not_ready = "the proxy is shutting down"

    async def finish(self) -> None:
        """No more requests come: close the open turns that no other process continues, score the closed ones."""
        timeout_s = self.settings.timeouts.shutdown
        self._finish_by = asyncio.get_running_loop().time() + timeout_s
        await asyncio.gather(*(line.capture.close(timeout_s) for line in self.lines.values()))
        await self.flush(timeout_s)
        await asyncio.gather(*(line.close() for line in self.lines.values()))
        self.bus.close()

    async def close_store(self) -> None:
        """In what `finish` left of the time for turns to be scored."""
        left_s = self._finish_by - asyncio.get_running_loop().time()
        await asyncio.to_thread(self.store.close, max(left_s, _CLOSE_STORE_S))
