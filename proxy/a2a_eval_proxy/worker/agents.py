"""By what a worker scores the turns of each agent: the settings that an agent has of its own."""

from __future__ import annotations

from collections.abc import Mapping

from tool_call_evaluators.judge import JudgeBudget

from ..scoring.agent_scoring import Scoring, Scorings, judge_budget
from ..settings.settings import ScoringOptions
from ..store import Store


class ScoredBy:
    """By what the turns of an agent with these settings are scored."""

    def __init__(self, scoring: Scoring, store: Store, budget: JudgeBudget | None) -> None:
        suite = scoring.cases.suite
        self.scoring = scoring
        self.scorer = scoring.scorer(store, budget)
        self.alone = self.scorer.evaluators(None).is_cheap and not (suite and suite.cases)
        """Whether the turns before it make no difference to any turn."""


class WorkerAgents:
    """The agents of the settings; turns of any other are scored by the common settings."""

    def __init__(
        self,
        store: Store,
        common: ScoringOptions,
        agents: Mapping[str, ScoringOptions],
    ) -> None:
        """Raises SuiteError, ConfigError."""
        self._store = store
        self._scorings = Scorings()
        self._common = self._made(None, common)
        self._agents = {name: self._made(name, settings) for name, settings in agents.items()}

    def of(self, agent_name: str | None) -> ScoredBy:
        """By what the turns of an agent are scored."""
        return self._agents.get(agent_name or "", self._common)

    def known(self, agent_name: str | None) -> str | None:
        """The name of an agent, if the settings have it: others are no labels of metrics."""
        return agent_name if agent_name in self._agents else None

    def _made(self, name: str | None, settings: ScoringOptions) -> ScoredBy:
        budget = judge_budget(settings.judge_budget, name)
        return ScoredBy(self._scorings.of(settings), self._store, budget)
