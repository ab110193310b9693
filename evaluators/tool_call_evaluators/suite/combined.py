"""Several suites as one, whose cases keep the evaluators, judge and tools of their own suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .model import Case, Suite

_NAMED = 3


class CombinationError(ValueError):
    """Suites that cannot be in one run; the message names both."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedSuite(Suite):
    """Several suites as one; `parts` has them as they are, with their gates."""

    parts: tuple[Suite, ...] = ()


def combined(suites: Sequence[Suite], files: Sequence[str] = ()) -> Suite:
    """The suite that scores the cases of all: a single one as it is.

    It has no gates, and no settings of an agent or a simulated user: those of each suite are for its own cases. Raises
    CombinationError, which names `files` (default: the suites), for a case or a name of a suite that occurs twice.
    """
    if len(suites) == 1:
        return suites[0]
    places = files or [suite.name for suite in suites]
    _unique("the suite", [(suite.name, place) for suite, place in zip(suites, places, strict=True)])
    _unique("the case", [(case.id, place) for suite, place in zip(suites, places, strict=True) for case in suite.cases])
    plugins = dict.fromkeys(path for suite in suites for path in suite.plugins)
    cases = tuple(_own(case, suite) for suite in suites for case in suite.cases)
    names = [suite.name for suite in suites]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    name = ", ".join(names[:_NAMED]) + more
    return CombinedSuite(name=name, plugins=tuple(plugins), cases=cases, parts=tuple(suites))


def _own(case: Case, suite: Suite) -> Case:
    specs = suite.evaluators if case.evaluators is None else case.evaluators
    return replace(case, evaluators=tuple(replace(spec, judge=suite.judge) for spec in specs))


def _unique(kind: str, names: Sequence[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for name, place in names:
        if name in seen:
            raise CombinationError(f"{kind} {name!r} is in {seen[name]} and in {place}; rename one of them")
        seen[name] = place
