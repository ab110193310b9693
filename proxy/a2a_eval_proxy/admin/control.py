"""What the admin API and the pages need of a proxy, or of a store without traffic."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from tool_call_evaluators.options import did_you_mean
from tool_call_evaluators.texts import listed

from ..relay.wire_log import WireRecord
from ..runs.run_result import JudgedBy
from ..scoring.agent_scoring import Scoring
from ..scoring.case_book import CaseBook
from ..scoring.pipeline import Pipeline
from ..store import Store
from ..store.base import TurnJson
from ..telemetry.event_bus import EventBus
from .agent_status import AgentStatus, AgentWatch
from .long_computations import LongComputations

_MOST_NAMES = 20
MAX_OPEN = 1_000  # maximum number of open turns that are shown, the newest ones


@dataclass(eq=False, kw_only=True)
class Control:
    """A store without traffic, where no turn is captured, pending or open; see `proxy_control` for that of a proxy."""

    store: Store
    common: Scoring  # that of an agent without a suite and rules of its own
    bus: EventBus = field(default_factory=EventBus)
    trace_url: str | None  # where people see traces, with `{trace_id}`
    allow_plugins: bool = False  # whether the suite may load code from outside its folder
    proxy_url: str | None = None  # where clients connect; None without traffic
    work: LongComputations = field(default_factory=LongComputations)  # for what takes long: judging and comparing runs
    agent: AgentWatch | None = None  # None without traffic

    def judged_by(self, agent_names: Collection[str | None]) -> list[JudgedBy]:
        """The suites in force for turns of these agents."""
        found: dict[str | None, tuple[Scoring, set[str | None]]] = {}
        for name in sorted(agent_names, key=str):
            scoring = self.scoring_of({"agent_name": name})
            found.setdefault(scoring.suite_file, (scoring, set()))[1].add(name)
        return [
            JudgedBy(scoring.suite, scoring.suite_file, frozenset(names), scoring.privacy)
            for scoring, names in found.values()
        ]

    def scoring_of(self, turn: Mapping[str, Any]) -> Scoring:
        """Those for a turn, in its JSON form: those of its agent, or of a conversation that `run` held with the several
        agents of a case those with that case."""
        own = self.scorings.get(turn.get("agent_name") or "", self.common)
        if turn.get("attempt") and (case_id := turn["case_id"]) is not None:
            every = [own, *self.every_scoring]
            whole = (one for one in every if (case := one.cases.case(case_id)) and case.is_whole_with(turn))
            return next(whole, own)
        return own

    @property
    def scorings(self) -> Mapping[str, Scoring]:
        """Those of each of several agents behind the proxy, by name; {} for one."""
        return {}

    @property
    def agent_names(self) -> Sequence[str]:
        """The names of several agents behind the proxy; [] for one."""
        return list(self.scorings)

    @property
    def every_scoring(self) -> list[Scoring]:
        """Those in force, each once."""
        return list({scoring.cases: scoring for scoring in self.scorings.values() or [self.common]}.values())

    async def agent_statuses(self, names: Collection[str] | None = None, *, wait: bool = True) -> list[AgentStatus]:
        """How the agents behind the proxy do, or those with these names. `wait`: as of `AgentWatch.status`."""
        return []

    def sharing(self, scoring: Scoring) -> list[str]:
        """Which of several agents have these cases; [] for one agent."""
        return [name for name, own in self.scorings.items() if own.cases is scoring.cases]

    def books_of(self, file: str | Path) -> set[CaseBook]:
        """The cases of all agents whose suite is in this file; they may be redacted differently."""
        return {
            scoring.cases
            for scoring in (self.common, *self.every_scoring)
            if scoring.suite_file and Path(scoring.suite_file) == Path(file)
        }

    async def flush(self, timeout_s: float) -> dict[str, int]:
        """Wait until everything captured is done; `pending` and `open` turns left."""
        return {"pending": 0, "open": 0}

    @property
    def open_turns(self) -> int:
        return 0

    async def turns_in_progress(self, most: int = MAX_OPEN, turn_id: str | None = None) -> list[TurnJson]:
        """The open turns of this proxy that began last, at most `most`, newest first, or the one with this id.

        They are redacted, with their calls and text so far.
        """
        return []

    def wire(
        self, agent_name: str, turn_id: str, tasks: Sequence[str], began: float, ended: float | None
    ) -> list[WireRecord]:
        """The exchanges of a turn that are in memory; see `relay.wire_log.WireLog.of_turn`."""
        return []

    def pipeline_of(self, turn: Mapping[str, Any]) -> Pipeline | None:
        """What scores turns of the agent of this turn, in its JSON form; None where this process does not."""
        return None

    def problems(self) -> list[str]:
        """Why the proxy is not ready; [] when it is."""
        return []

    def remarks(self) -> list[str]:
        """What does not work, though the proxy is ready."""
        return []


def known_agent(control: Control, name: str) -> str:
    """The name, which one of several agents in force has. Raises HTTPException (400), which says what to choose."""
    if name not in control.agent_names:
        hint = did_you_mean(name, control.agent_names) or f": {_listed_agents(control)}"
        raise HTTPException(400, f"agent: there is no agent {name[:100]!r}{hint}")
    return name


def scoring_for(control: Control, name: str | None) -> Scoring:
    """That of the agent with this name; None: that which all agents have. Raises HTTPException (400)."""
    if name is not None:
        return control.scorings[known_agent(control, name)]
    first, *others = control.every_scoring
    if others:
        raise HTTPException(400, f"agent: required, as agents have suites of their own; {_listed_agents(control)}")
    return first


def _listed_agents(control: Control) -> str:
    names = control.agent_names
    if not names:
        return "one agent is behind this proxy, without a name; leave out `agent`"
    return f"expected one of {listed(names, _MOST_NAMES)}"


class Api:
    """The routes of one subject."""

    def __init__(self, control: Control) -> None:
        self._control = control
