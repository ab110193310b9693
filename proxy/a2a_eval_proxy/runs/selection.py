"""Which cases of a suite a run has: all, or those that the command line selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from tool_call_evaluators.options import did_you_mean
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.model import combined
from tool_call_evaluators.visibility import TURN_SUCCEEDED

from ..errors import ConfigError
from ..scoring.scorer import TurnJson

_NAMED = 20


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects cases whose id matches one of `ids` and which have one of `tags`; without either, all cases.

    `ids` may be shell patterns.
    """

    ids: Sequence[str] = ()
    tags: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.ids or self.tags)

    def of(self, suite: Suite) -> Suite:
        """`suite` with the selected cases. Raises ConfigError if a name, or all together, select none."""
        known = [case.id for case in suite.cases]
        for name in self.ids:
            if not any(_matches(case_id, name) for case_id in known):
                raise ConfigError(f"--case: no case {name!r} in suite {suite.name!r}{_meant(name, known)}")
        tags = list(dict.fromkeys(tag for case in suite.cases for tag in case.tags))
        for tag in self.tags:
            if tag not in tags:
                raise ConfigError(f"--tag: no case of suite {suite.name!r} has the tag {tag!r}{_meant(tag, tags)}")
        cases = tuple(
            case
            for case in suite.cases
            if (not self.ids or any(_matches(case.id, name) for name in self.ids))
            and (not self.tags or not set(self.tags).isdisjoint(case.tags))
        )
        if self and not cases:
            raise ConfigError(f"--case, --tag: no case of suite {suite.name!r} matches both")
        return replace(suite, cases=cases)

    def of_each(self, suites: Sequence[Suite]) -> list[Suite]:
        """The suites of one run with the selected cases, without those that have none. Raises as `of` does."""
        if len(suites) == 1:
            return [self.of(suites[0])]
        ids = {case.id for case in self.of(combined(suites)).cases}
        parts = (replace(suite, cases=tuple(case for case in suite.cases if case.id in ids)) for suite in suites)
        return [suite for suite in parts if suite.cases]


ALL = Selection()


def selected_turns(suite: Suite, turns: Sequence[TurnJson], *, partial: bool) -> tuple[Suite, Sequence[TurnJson]]:
    """What the verdict on a selection, or on one suite of several, reads: `suite`, and the turns of its cases.

    `partial`: `suite` has a part of its cases; an evaluator that measures nothing in them is tolerated if another one
    does: it may be for the other cases.
    """
    ids = {case.id for case in suite.cases}
    turns = [turn for turn in turns if turn["case_id"] in ids]
    results = (result for turn in turns for result in turn["evaluations"] if result["evaluator"] != TURN_SUCCEEDED)
    if partial and any(result["status"] not in ("skipped", "errored") for result in results):
        suite = replace(suite, tolerate=suite.tolerate | {"unmeasured"})
    return suite, turns


def _meant(name: str, known: Sequence[str]) -> str:
    listed = ", ".join(known[:_NAMED]) + (" …" if len(known) > _NAMED else "")
    return did_you_mean(name, known) or (f"; known are {listed}" if known else "")


def _matches(case_id: str, name: str) -> bool:
    return case_id == name or fnmatchcase(case_id, name)
