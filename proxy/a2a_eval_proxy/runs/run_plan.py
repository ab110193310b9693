"""What a run scores with, and which files it writes: its own report, and with ArkSim's files also in their format."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from a2a_tool_capture.models import rfc3339
from tool_call_evaluators.arksim.files.config import ArksimRun, Scenarios
from tool_call_evaluators.arksim.files.results import ArksimResults
from tool_call_evaluators.arksim.files.simulation import SimulationFile
from tool_call_evaluators.report import Report
from tool_call_evaluators.suite import Case, Suite
from tool_call_evaluators.suite.model import combined

from ..errors import ConfigError
from .report_files import PAGE, publish_report
from .selection import Selection
from .simulation_files import scored_by, simulation_id

_NAMED = 20


@dataclass(frozen=True)
class RunPlan:
    """`given` is the folder for the report that the command line names; `arksim` the files that the suite is of, which
    then is the only one."""

    suites: Mapping[str, Suite]  # by file
    given: Path | None
    arksim: ArksimRun | None
    warnings: Sequence[str] = ()
    simulation: SimulationFile | None = None  # the conversations to score
    cases: Mapping[str, Case] = field(default_factory=dict)  # those of the conversations, by the ids of their scenarios

    @property
    def suite(self) -> Suite:
        """The suite, or all as one. Raises CombinationError."""
        return combined(list(self.suites.values()), list(self.suites))

    def selecting(self, selection: Selection) -> RunPlan:
        """This plan with the selected cases. Raises as `Selection.of`."""
        chosen = {suite.name: suite for suite in selection.of_each(list(self.suites.values()))}
        suites = {file: chosen[suite.name] for file, suite in self.suites.items() if suite.name in chosen}
        return replace(self, suites=suites)

    def repeating(self, times: int | None) -> RunPlan:
        """This plan with that number of attempts at each case, if it is given."""
        if times is None:
            return self
        suites = {
            file: replace(suite, cases=tuple(case.held(times) for case in suite.cases))
            for file, suite in self.suites.items()
        }
        return replace(self, suites=suites)

    def of_simulation(self, simulation: SimulationFile) -> RunPlan:
        """This plan for these conversations. Raises ConfigError for several suites."""
        if len(self.suites) > 1:
            raise ConfigError("--simulation-file-path: needs one suite, the one of its conversations")
        suite, cases = scored_by(simulation, self.suite, self.scenarios)
        warnings = [*self.warnings, *simulation.notes]
        scored = {case.id for case in suite.cases}
        if absent := [case.id for case in self.suite.cases if case.id not in scored]:
            more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
            warnings.append(f"without a conversation, and not scored: {', '.join(absent[:_NAMED])}{more}")
        suites = dict.fromkeys(self.suites, suite)
        return replace(self, suites=suites, simulation=simulation, cases=cases, warnings=warnings)

    @property
    def scenarios(self) -> Scenarios:
        return self.arksim.scenarios if self.arksim else Scenarios()

    @property
    def report(self) -> Path | None:
        return self.given or (self.arksim.output_dir if self.arksim else None)

    @property
    def simulation_output(self) -> Path | None:
        """The file for the conversations of `run`."""
        if self.arksim is None:
            return None
        return self.arksim.simulation_output or (self.given and self.given / "simulation.json")

    def publish(self, report: Report) -> Path | None:
        """Write the files of `report`; returns the path of the page, None without a folder. Raises OSError."""
        if self.arksim is None and self.simulation is None:
            return publish_report(report, self.report)
        results = ArksimResults(
            report,
            self.scenarios,
            self.simulation.simulation_id if self.simulation else simulation_id(report.run),
            str(uuid.uuid4()),
            rfc3339(datetime.now(UTC)),
        )
        page = PAGE
        if self.arksim and self.arksim.output_dir:  # of a configuration
            page = "final_report.html" if self.arksim.html else ""
        return publish_report(report, self.report, page=page, arksim=results)
