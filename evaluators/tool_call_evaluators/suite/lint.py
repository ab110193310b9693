"""Finds parts of a suite without effect: expectations that no evaluator reads, unknown gates, cases without evaluators,
misspelt placeholders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from ..evaluator import Scope, is_built_in
from ..matching import placeholders
from ..metrics.external import External
from ..options import or_known
from .model import Case, Expectation, Suite

READ_BY: Mapping[str, tuple[str, ...]] = {item.name: item.metadata["read_by"] for item in fields(Expectation)}
"""The keys of `expect`, and the evaluators that read each."""


def unused_expectations(suite: Suite) -> list[str]:
    """A warning for each unused key of `expect` with its cases.

    Cases with evaluators of plug-ins get no warnings: such evaluators may read anything.
    """
    unused: dict[str, dict[str, None]] = {key: {} for key in READ_BY}
    scopes: tuple[Scope, ...] = ("turn", "conversation")
    shared = {scope: _names(suite, scope, None) for scope in scopes}
    for case in suite.cases:
        for scope, of_suite in shared.items():
            names = of_suite if case.evaluators is None else _names(suite, scope, case)
            if names is None:
                continue
            expects = [turn.expect for turn in case.turns] if scope == "turn" else [case.expect]
            for key, evaluators in READ_BY.items():
                if names.isdisjoint(evaluators) and any(getattr(expect, key) is not None for expect in expects):
                    unused[key][case.id] = None
    return [
        f"{key} is expected in {_cases(list(cases))}, but no evaluator reads it (add {_either(READ_BY[key])})"
        for key, cases in unused.items()
        if cases
    ]


def unknown_gates(suite: Suite) -> list[str]:
    """A sentence for each gate of a metric that no evaluator of the suite measures: it can only fail."""
    metrics = suite.metrics
    return [
        f"gate {name} names no evaluator of the suite{or_known(name, metrics)}"
        for name in suite.gates
        if name not in metrics
    ]


def unknown_placeholders(suite: Suite) -> list[str]:
    """A warning for each key of expected arguments that may be a misspelt placeholder, with its cases."""
    found: dict[str, dict[str, None]] = {}
    for case in suite.cases:
        for expect in (case.expect, *(turn.expect for turn in case.turns)):
            values = [*(call.arguments for call in expect.tool_calls or ()), expect.response]
            for key in sorted(set().union(*map(placeholders.unknown_placeholders, values))):
                found.setdefault(key, {})[case.id] = None
    known = placeholders.PLACEHOLDERS
    return [
        f"{key} in {_cases(list(cases))} is no placeholder{or_known(key, known)}; it is compared as data"
        for key, cases in found.items()
    ]


def unscored_cases(suite: Suite) -> list[str]:
    """A warning that names the cases without evaluators, if there are any, or that there are no cases."""
    if not suite.cases:
        return ["the suite has no cases: `run` has nothing to send"]
    bare = [case.id for case in suite.cases if not (suite.evaluators if case.evaluators is None else case.evaluators)]
    return [f"no evaluator scores {_cases(bare)}: list some in `evaluators`"] if bare else []


def _names(suite: Suite, scope: Scope, case: Case | None) -> frozenset[str] | None:
    """The evaluators' names; None if one is from a plug-in."""
    evaluators = suite.build_evaluators(scope, case)
    ours = all(is_built_in(type(item)) and type(item) is not External for item in evaluators)
    return frozenset(item.name for item in evaluators) if ours else None


def _cases(ids: list[str]) -> str:
    return f"case {ids[0]}" + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
