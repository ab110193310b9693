"""Groups behaviour failures into distinct errors by the ruling of a judge, not by their wording."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from ..behavior_failures import BehaviorFailure, UniqueError, ordered, unique_errors
from ..judge.panel import poll
from ..judge.prompt import load_prompt
from ..judge.question import Judge, Question
from .base import object_schema
from .transcript import numbered


async def judged_unique_errors(failures: Iterable[BehaviorFailure], judge: Judge) -> list[UniqueError]:
    """As `unique_errors`, but also merges errors of one label that `judge` considers the same.

    A label with one error needs no question. Raises JudgeError; `unique_errors` needs no judge.
    """
    found = sorted(unique_errors(failures), key=lambda error: error.label)
    merged: list[UniqueError] = []
    for _, group in groupby(found, key=lambda error: error.label):
        errors = list(group)
        merged += errors if len(errors) == 1 else await _merged(errors, judge)
    return ordered(merged)


async def _merged(errors: list[UniqueError], judge: Judge) -> list[UniqueError]:
    keys = [f"error_{number}" for number in range(1, len(errors) + 1)]
    same_as = {"type": "integer", "enum": list(range(1, len(errors) + 1))}
    schema = object_schema(dict.fromkeys(keys, object_schema({"reason": {"type": "string"}, "same_as": same_as})))
    data = {"errors": numbered("error", (error.description for error in errors))}
    (given,) = await poll(judge, [Question(load_prompt("unique_errors"), data, schema)], 1)
    (answer,) = given.values()
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
