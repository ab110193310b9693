"""Groups behaviour failures into distinct errors by the ruling of a judge, not by their wording."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from ..behavior_failures import SEVERITY, BehaviorFailure, UniqueError, ordered, unique_errors
from ..judge.panel import poll
from ..judge.question import Judge, JudgeError, Question, Usage, load_prompt, total
from .base import numbered, object_schema

MAX_ERRORS = 100
"""The maximum number of errors of one label that the judge compares; rarer ones stay as they are."""

logger = logging.getLogger(__name__)


async def errors_of_run(failures: Iterable[BehaviorFailure], judge: Judge | None) -> tuple[list[UniqueError], Usage]:
    """The distinct errors of a run, and what `judge` costs.

    With a judge, behaviour failures are merged as in `judged_unique_errors`; other failures have computed reasons, and
    are grouped by these. If the judge does not answer, a warning is logged, and all are grouped by their reasons.
    """
    failures = list(failures)
    if judge is None:
        return unique_errors(failures), Usage()
    spent: list[Usage] = []
    try:
        merged = await judged_unique_errors((item for item in failures if item.label in SEVERITY), judge, spent)
    except JudgeError as error:
        logger.warning("distinct errors are grouped by their wording alone: %s", error)
        return unique_errors(failures), total([*spent, error.usage])
    others = unique_errors(item for item in failures if item.label not in SEVERITY)
    return ordered([*merged, *others]), total(spent)


async def judged_unique_errors(
    failures: Iterable[BehaviorFailure], judge: Judge, spent: list[Usage] | None = None
) -> list[UniqueError]:
    """As `unique_errors`, but also merges errors of one label that `judge` considers the same.

    A label with one error needs no question, and at most `MAX_ERRORS` of one label are compared. What answers cost is
    appended to `spent`. Raises JudgeError.
    """
    found = sorted(unique_errors(failures), key=lambda error: error.label)
    merged: list[UniqueError] = []
    spent = [] if spent is None else spent
    for _, group in groupby(found, key=lambda error: error.label):
        errors = list(group)
        asked, rare = errors[:MAX_ERRORS], errors[MAX_ERRORS:]
        merged += [*(asked if len(asked) == 1 else await _merged(asked, judge, spent)), *rare]
    return ordered(merged)


async def _merged(errors: list[UniqueError], judge: Judge, spent: list[Usage]) -> list[UniqueError]:
    keys = [f"error_{number}" for number in range(1, len(errors) + 1)]
    same_as = {"type": "integer", "enum": list(range(1, len(errors) + 1))}
    schema = object_schema(dict.fromkeys(keys, object_schema({"reason": {"type": "string"}, "same_as": same_as})))
    data = {"errors": numbered("error", (error.description for error in errors))}
    (given,) = await poll(judge, [Question(load_prompt("unique_errors"), data, schema)], 1)
    (answer,) = given.values()
    spent += [one.usage for one in given.answers]
    groups: dict[int, UniqueError] = {}
    first: list[int] = []
    for index, (key, error) in enumerate(zip(keys, errors, strict=True)):
        named = answer[key]["same_as"] - 1
        # an error that equals a later one stays: the later one may join it
        root = first[named] if named < index else index
        first.append(root)
        known = groups.get(root)
        occurrences = dict.fromkeys((*(known.occurrences if known else ()), *error.occurrences))
        groups[root] = replace(known or error, occurrences=tuple(occurrences))
    return list(groups.values())
