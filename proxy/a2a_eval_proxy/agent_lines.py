"""The agents of a running proxy, which may be added, changed and removed."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tool_call_evaluators.suite import SuiteError

from .agent_line import AgentLine, SharedParts
from .errors import ConfigError
from .net.file_watcher import FileWatch
from .serving.local_serving import LocalServing
from .serving.reports import ScoringReports
from .settings import Settings
from .settings.settings import Agent

logger = logging.getLogger(__name__)

_NOT_SERVED = (ConfigError, SuiteError)
"""Why an agent cannot be served with its settings."""


class _Refused(NamedTuple):
    watch: FileWatch
    """Of the files that the settings name."""
    why: str


class AgentLines(Mapping[str, AgentLine]):
    """The agents in force, by name; that of `--upstream` has none. Belongs to one event loop."""

    def __init__(self, settings: Settings, shared: SharedParts) -> None:
        """Raises ConfigError, SuiteError; with a directory of agents only if none can be served."""
        self._shared = shared
        self._lines: dict[str, AgentLine] = {}
        self._wanted = settings
        self.refused: dict[str, _Refused] = {}
        """The agents that cannot be served with their newest settings."""
        self._trying: asyncio.Task[None] | None = None
        failed: Exception | None = None
        for name, agent in settings.each_agent.items():
            try:
                self._lines[name] = self._new(agent)
            except _NOT_SERVED as error:
                if settings.agents_dir is None:
                    if name:
                        raise ConfigError(f"agent {name}: {error}") from error
                    raise
                failed = failed or error
                self._refuse(agent, "it is not served", error)
        if failed and not self._lines:
            raise failed
        self._leaving: dict[asyncio.Task[None], AgentLine] = {}
        self._changing = asyncio.Lock()
        self._unknown: set[str | None] = set()
        self.serving: LocalServing
        """Set before anything is changed."""

    def __getitem__(self, name: str) -> AgentLine:
        return self._lines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def all(self) -> list[AgentLine]:
        """Those in force, and those that have still to answer, to store or to score something."""
        return [*self._lines.values(), *self._leaving.values()]

    @property
    def reports(self) -> list[ScoringReports]:
        """What has the open turns of `all`, each once."""
        return [line.reports for line in self.all if line.has_reports]

    def start(self) -> None:
        self._look_for_unknown_agents()
        for line in self._lines.values():
            line.start()

    def _look_for_unknown_agents(self) -> None:
        """Log, once, cases that no turn can be of: they name an agent that is not behind this proxy."""
        books = {} if "" in self._lines else dict.fromkeys(line.scoring.cases for line in self._lines.values())
        for case in (case for book in books if book.suite is not None for case in book.suite.cases):
            for name in {*case.agents} - {None, *self._lines, *self._unknown}:
                self._unknown.add(name)
                logger.warning(
                    "case %s of the suite names the agent %s, which is not behind this proxy; it has no turns",
                    case.id,
                    name,
                )

    async def leave(self) -> None:
        """No agent is served any longer."""
        for line in self.all:
            await line.leave()

    async def change(self, settings: Settings | None = None) -> None:
        """Serve the agents of these settings (None: of the last ones). One that changed serves new requests as it is
        now; those under way end as they began. What cannot be served is logged, and the earlier one stays until the
        files that its settings name change."""
        async with self._changing:
            self._wanted = settings = settings or self._wanted
            wanted, before = settings.each_agent, dict(self._lines)
            new = {name: agent for name, agent in wanted.items() if name not in before or before[name].agent != agent}
            for name in self.refused.keys() - new.keys():
                self._accept(name)
            for name, agent in new.items():
                try:
                    scoring = await asyncio.to_thread(self._shared.scorings.of, agent.settings)
                    earlier = self._before(name)
                    line = AgentLine(agent, self._shared, scoring, earlier)
                except _NOT_SERVED as error:
                    kept = "the earlier one stays in use" if name in before else "it is not served"
                    self._refuse(agent, kept, error)
                else:
                    await self._add(line)
                    self._accept(name)
            for name in before.keys() - wanted.keys():
                del self._lines[name]
            self._look_for_unknown_agents()
            for name in self._lines.keys() - before.keys():
                logger.info("agent %s: added", name)
                self._lines[name].resume([task for task, line in self._leaving.items() if line.agent.name == name])
            for name, line in before.items():
                if self._lines.get(name) is not line:
                    task = asyncio.get_running_loop().create_task(self._end(line))
                    self._leaving[task] = line
                    task.add_done_callback(self._leaving.pop)
                    logger.info("agent %s: %s", name, "changed" if name in self._lines else "removed")

    def _new(self, agent: Agent) -> AgentLine:
        return AgentLine(agent, self._shared, self._shared.scorings.of(agent.settings))

    def _refuse(self, agent: Agent, kept: str, error: Exception) -> None:
        """Say why, and try again once a file changes that the settings name: one of a Secret may come later."""
        before, why = self.refused.get(agent.name), f"{kept}, {error}"
        if before is None or before.why != why:
            logger.error("agent %s: %s", agent.name, why)
        self._accept(agent.name)
        loop, calls = asyncio.get_running_loop(), itertools.count()

        def load() -> None:
            if next(calls):  # at first, it is called at once
                loop.call_soon_threadsafe(self._try_again)

        watch = self._shared.files.part()
        self.refused[agent.name] = _Refused(watch, why)
        watch.add(f"the files of agent {agent.name}", agent.files, load)

    def _accept(self, name: str) -> None:
        if (refused := self.refused.pop(name, None)) is not None:
            self._shared.files.drop(refused.watch)

    def _try_again(self) -> None:
        self._trying = asyncio.get_running_loop().create_task(self.change())

    def _others(self, line: AgentLine) -> list[asyncio.Task[None]]:
        """What ends earlier lines of the agent, whose requests under way have open turns in its reports."""
        return [task for task, other in self._leaving.items() if other is not line and other.reports is line.reports]

    def _before(self, name: str) -> AgentLine | None:
        """The line that has the open turns of an agent, as long as it does not close them."""
        return next((line for line in self.all if line.agent.name == name and line.has_reports and not line.ends), None)

    async def _add(self, line: AgentLine) -> None:
        await self.serving.add(line.traffic)
        self._lines[line.agent.name] = line
        line.start()

    async def _end(self, line: AgentLine) -> None:
        """Once its last response has ended, store and score what is left."""
        await self.serving.remove(line.traffic)
        await line.leave()
        while line.has_reports and (earlier := self._others(line)):
            await asyncio.wait(earlier)
        await line.close_turns(line.agent.settings.shutdown_timeout)
        await line.settled()
        await line.close()
        name = line.agent.name
        if not any(other.agent.name == name for other in self.all if other is not line):
            self._shared.forget(name)
