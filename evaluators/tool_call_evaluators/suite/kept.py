"""A suite as a run keeps it: what its results and its verdict mean, without what reaches an agent or a judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..judge.settings import JudgeSettings
from ..registry import evaluator_names
from ..simulation.settings import UserSettings
from .agent_defaults import AgentDefaults
from .files import ReadContext
from .model import Suite
from .parsing import read_suite
from .writing import suite_dict
from .yaml_document import Document


def kept_suite(suite: Suite) -> dict[str, Any]:
    """The JSON form of a suite for `read_kept_suite`: headers, models and files with code are not in it."""
    kept = replace(suite, agent=AgentDefaults(), simulated_user=UserSettings(), judge=JudgeSettings(), plugins=())
    return suite_dict(kept)


def read_kept_suite(data: Mapping[str, Any]) -> tuple[Suite, bool]:
    """The suite, and whether it is whole: evaluators of plug-ins that this process has not loaded are left out.

    Raises SuiteError.
    """
    known = {*evaluator_names()}
    is_whole = True

    def without_unknown(owner: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal is_whole
        if "evaluators" not in owner:
            return dict(owner)
        found = [one for one in owner["evaluators"] if (one if isinstance(one, str) else next(iter(one))) in known]
        is_whole = is_whole and len(found) == len(owner["evaluators"])
        return {**owner, "evaluators": found}

    cases = [without_unknown(case) for case in data.get("cases", ())]
    suite = read_suite(Document({**without_unknown(data), "cases": cases}, "suite"), ReadContext(Path()))
    return suite, is_whole
