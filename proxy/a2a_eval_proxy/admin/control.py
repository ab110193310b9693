"""What the admin API and the pages need of a proxy, or of a store without traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tool_call_evaluators.suite import Case, Suite

from ..long_computations import LongComputations
from ..privacy.policy import NO_PRIVACY, Privacy
from ..runs.run_result import JudgedBy
from ..scoring.case_book import CaseBook
from ..scoring.suite_file import add_to_suite
from ..store import Store
from ..store.base import TurnJson
from ..telemetry.event_bus import EventBus
from .agent_status import AgentWatch

MAX_OPEN = 1_000  # maximum number of open turns that are shown, the newest ones


@dataclass(eq=False, kw_only=True)
class Control:
    """A store without traffic, where no turn is captured, pending or open; `app.RunningProxy` is a proxy."""

    store: Store
    cases: CaseBook
    bus: EventBus = field(default_factory=EventBus)
    suite_file: str | None
    trace_url: str | None  # where people see traces, with `{trace_id}`
    privacy: Privacy = NO_PRIVACY
    work: LongComputations = field(default_factory=LongComputations)  # for what takes long: judging and comparing runs
    agent: AgentWatch | None = None  # None without traffic

    @property
    def suite(self) -> Suite | None:
        """With the cases added so far."""
        return self.cases.suite

    @property
    def run(self) -> str | None:
        """The run of new turns; None without traffic."""
        return None

    def judged_by(self, run: str) -> JudgedBy:
        """What judges the run with this name: for the run of one of several agents, the suite of that agent."""
        return JudgedBy(self.suite, self.suite_file, current=run == self.run)

    def privacy_of(self, turn: Mapping[str, Any]) -> Privacy:
        """The rules for a turn, in its JSON form: those of its agent."""
        return self.privacy

    def cases_of(self, turn: Mapping[str, Any]) -> CaseBook:
        """The cases in force for a turn, in its JSON form: those of its agent."""
        return self.cases

    @property
    def agent_names(self) -> Sequence[str]:
        """The names of several agents behind the proxy; () for one."""
        return ()

    @property
    def allow_plugins(self) -> bool:
        """Whether the suite may load code from outside its folder."""
        return False

    @property
    def proxy_url(self) -> str | None:
        """Where clients connect; None without traffic."""
        return None

    async def flush(self, timeout_s: float) -> dict[str, int]:
        """Wait until everything captured is done; `pending` and `open` turns left."""
        return {"pending": 0, "open": 0}

    @property
    def open_turns(self) -> int:
        """Number of open turns of this proxy."""
        return 0

    async def turns_in_progress(self, most: int = MAX_OPEN, turn_id: str | None = None) -> list[TurnJson]:
        """The open turns of this proxy that began last, at most `most`, newest first, or the one with this id.

        They are redacted, with their calls and text so far.
        """
        return []

    async def wire(self, turn_id: str, tasks: Sequence[str], began: float, ended: float | None) -> list[dict[str, Any]]:
        """The exchanges of a turn that are in memory (`relay.wire_json`); see `relay.wire_log.WireLog.of_turn`."""
        return []

    def scored_at(self, turn_id: str) -> float | None:
        """When this process scored a turn, in seconds since the epoch; None if it did not, or long ago."""
        return None

    @property
    def evaluates(self) -> bool:
        """Whether this process scores turns."""
        return False

    def bind(self, turn: TurnJson, case_id: str) -> None:
        """Score a stored turn, which is done, again as a turn of this case. Only where it `evaluates`."""
        raise NotImplementedError("nothing is scored here")

    async def add_case(self, case: Case, comments: Sequence[str]) -> None:
        """Append it to the suite file and to the suite. Raises SuiteError or SuiteFileError."""
        await add_to_suite(self.suite_file, self.cases, case, comments, allow_plugins=self.allow_plugins)

    def problems(self) -> list[str]:
        """Why the proxy is not ready; [] when it is."""
        return []

    def remarks(self) -> list[str]:
        """What does not work, though the proxy is ready."""
        return []
