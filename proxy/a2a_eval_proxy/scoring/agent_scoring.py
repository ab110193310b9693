"""What the settings of an agent say about scoring: its suite, the rules of its privacy, its judge budget."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from tool_call_evaluators.importers import ImportedSuites, import_suites
from tool_call_evaluators.judge import JudgeNotConfiguredError
from tool_call_evaluators.judge.budget import JudgeBudget
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.model import CombinedSuite

from ..privacy.policy import Privacy
from ..settings.parsing import Rate
from ..settings.parts import ScoringOptions
from ..store import Store
from .case_book import CaseBook
from .scorer import Scorer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scoring:
    """By what turns are scored, and how they are redacted: the same for agents with the same suite and rules."""

    privacy: Privacy
    cases: CaseBook
    suite_file: str | None

    @property
    def suite(self) -> Suite | None:
        """With the cases added so far."""
        return self.cases.suite

    @property
    def one_file(self) -> str | None:
        """The file of the suite, where that is one, whose changes can be shown."""
        return None if isinstance(self.suite, CombinedSuite) else self.suite_file

    def scorer(self, store: Store, budget: JudgeBudget | None) -> Scorer:
        """A new one, which asks judges within this budget."""
        return Scorer(self.cases, self.cases.suite, self.privacy.judge_cache(store.judge_cache), budget)


class Scorings:
    """Those of all agents, each once."""

    def __init__(self, *, judges: bool = True) -> None:
        """`judges`: whether this process asks them, so that one that is not configured is worth a warning."""
        self._judges = judges
        self._known: dict[tuple[Any, ...], Scoring] = {}

    def of(self, settings: ScoringOptions, privacy: Privacy | None = None) -> Scoring:
        """That of an agent with these settings. `privacy` None: theirs. Raises SuiteError, ConfigError."""
        key = (settings.suite, settings.privacy_key)
        known = self._known.get(key)
        if known is None:
            imported = _imported_suites(settings, judges=self._judges)
            suite, file = (imported.suite, imported.file) if imported else (None, None)
            privacy = privacy or settings.privacy()
            known = self._known[key] = Scoring(privacy, CaseBook(suite, privacy=privacy), file)
        return known


def judge_budget(rate: Rate | None, agent_name: str | None) -> JudgeBudget | None:
    """The budget of an agent; None where it has none."""
    if rate is None:
        return None
    return JudgeBudget(*rate, f"agent {agent_name}" if agent_name else "scoring")


def _imported_suites(settings: ScoringOptions, *, judges: bool) -> ImportedSuites | None:
    """The suites of the settings; what is odd about them is logged. Raises SuiteError."""
    if not settings.suite:
        return None
    imported = import_suites(settings.suite, allow_plugins=settings.allow_plugins)
    for note in imported.notes:
        logger.warning("suite %s", note)
    for part in imported.parts if judges else ():
        try:
            part.check_judges()
        except JudgeNotConfiguredError as error:  # traffic does not depend on it
            logger.warning("suite %s: %s; until then its results are errors", part.name, error)
    return imported
