"""Finds what has no effect in a suite: expectations that no evaluator reads, evaluators without their input, gates that
cannot be met, cases without evaluators, misspelt placeholders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields

from ..evaluator import EvaluatorBase, Scope, expectations_read
from ..grouping import grouped
from ..matching import placeholders
from ..model import EXPECT_KEYS, ExpectedCall
from ..options import or_known
from ..registry import built_in_evaluators
from .model import Case, Expectation, Suite

_READS = {name: expectations_read(cls) or () for name, cls in built_in_evaluators().items()}
READ_BY: Mapping[str, tuple[str, ...]] = {
    key.name: tuple(name for name, reads in _READS.items() if key.name in reads)
    for key in fields(Expectation)
    if key.name != "state"
}
"""The keys of `expect` that evaluators read, and which of those in this package do."""


_OF_A_CASE = ("user_goal", "knowledge", "profile", "tasks", "constraints", "tools")
"""Fields of EvalCase that a case gives itself, not in `expect`."""


def unused_expectations(suite: Suite) -> list[str]:
    """A warning for each unused key of `expect` with its cases.

    Cases with evaluators of plug-ins get no warnings: such evaluators may read anything.
    """
    unused = grouped(
        (key, case.id)
        for case, scope, evaluators in _scored(suite)
        for key in READ_BY
        if not may_read(key, evaluators)
        if any(getattr(expect, key) is not None for expect in _expectations(case, scope))
    )
    return [
        f"{key} is expected in {_cases(unused[key])}, but no evaluator reads it (add {_either(READ_BY[key])})"
        for key in READ_BY
        if key in unused
    ]


def may_read(key: str, evaluators: Iterable[EvaluatorBase]) -> bool:
    """Whether one of them reads that key of `expect`; one of a plug-in may read anything."""
    return any(reads is None or key in reads for reads in map(expectations_read, evaluators))


def missing_inputs(suite: Suite) -> list[str]:
    """A warning for each evaluator and input that its cases do not give, with these cases.

    A case without an expectation that others give is named only if it expects nothing else: a suite may have cases for
    calls and cases for answers.
    """
    inputs = list(_inputs(suite))
    given = {metric for metric, _, missing in inputs if missing is None}
    nothing = Expectation()
    expecting = {case.id for case in suite.cases if any(expect != nothing for expect in case.expectations)}
    found = grouped(
        ((metric, missing), case.id)
        for metric, case, missing in inputs
        if missing and not (metric in given and "expect." in missing and case.id in expecting)
    )
    may_skip = given if "unmeasured" not in suite.tolerate and suite.run_gates.pass_rate != 0 else suite.metrics
    return [
        f"{metric} skips {_cases(ids)}: {missing}" + ("" if metric in may_skip else "; the run fails as unmeasured")
        for (metric, missing), ids in found.items()
    ]


def unmeasurable_gates(suite: Suite) -> list[str]:
    """A sentence for each gate whose evaluator has no input in any case, unless the suite tolerates that."""
    if "unmeasured" in suite.tolerate:
        return []
    inputs = list(_inputs(suite))
    given = {metric for metric, _, missing in inputs if missing is None}
    absent = {metric: missing for metric, _, missing in inputs if metric in suite.gates and metric not in given}
    return [
        f"gate {metric} cannot be met, as {metric} skips every case: {missing}" for metric, missing in absent.items()
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
    """A warning for each key of expected values that may be a misspelt placeholder, with its cases."""
    found = grouped(
        (key, case.id)
        for case in suite.cases
        for expect in case.expectations
        for key in sorted(
            placeholders.unknown_placeholders(
                [*map(ExpectedCall.to_dict, expect.tool_calls or ()), expect.response, expect.values["state_of_world"]]
            )
        )
    )
    known = placeholders.PLACEHOLDERS
    return [
        f"{key} in {_cases(cases)} stands beside other keys, and is no placeholder there; it is compared as data"
        if key in known
        else f"{key} in {_cases(cases)} is no placeholder{or_known(key, known)}; it is compared as data"
        for key, cases in found.items()
    ]


def unscored_cases(suite: Suite) -> list[str]:
    """A warning that names the cases without evaluators, if there are any, or that there are no cases."""
    if not suite.cases:
        return ["the suite has no cases: `run` has nothing to send"]
    bare = [
        case.id
        for case in suite.cases
        if not (suite.evaluators if case.evaluators is None else case.evaluators)
        and not any(turn.expect.state for turn in case.turns)
    ]
    return [f"no evaluator scores {_cases(bare)}: list some in `evaluators`"] if bare else []


def _inputs(suite: Suite) -> Iterator[tuple[str, Case, str | None]]:
    """The metric of each evaluator with each case that it scores, and which input is missing there, if any."""
    for case, scope, evaluators in _scored(suite):
        for item in evaluators:
            yield item.metric, case, _missing(item, scope, case)


def _scored(suite: Suite) -> Iterator[tuple[Case, Scope, list[EvaluatorBase]]]:
    """Each case with the evaluators of its turns, and with those of the whole conversation."""
    scopes: tuple[Scope, ...] = ("turn", "conversation")
    shared = {scope: suite.build_evaluators(scope) for scope in scopes}
    for case in suite.cases:
        for scope, of_suite in shared.items():
            yield case, scope, of_suite if case.evaluators is None else suite.build_evaluators(scope, case)


def _expectations(case: Case, scope: Scope) -> list[Expectation]:
    return [case.expect] if scope == "conversation" else [turn.expect for turn in case.turns]


def _missing(evaluator: EvaluatorBase, scope: Scope, case: Case) -> str | None:
    """That `case` does not give an input of `evaluator`, with its key in a suite; None if it gives all.

    What only a run gives, such as the answer, is no input of a case.
    """
    whole = case.conversation_case(())
    expects = _expectations(case, scope)
    needs = [EXPECT_KEYS.get(need, need) for need in evaluator.needs]
    keys = [key for key, readers in READ_BY.items() if evaluator.name in readers]
    absent = [key for key in keys if all(getattr(expect, key) is None for expect in expects)]
    options = [option for option in (evaluator.criterion, "criteria") if hasattr(evaluator, option)]
    in_options = any(getattr(evaluator, option) is not None for option in options)
    for name in needs:
        if name in _OF_A_CASE and getattr(whole, name) is None:
            return f"the case has no {name}"
    lacking = [key for key in absent if key in needs or absent == keys]
    if not lacking or in_options:
        return None
    text = f"{'the case has no' if scope == 'conversation' else 'no turn has'} expect.{' or '.join(lacking)}"
    return text + (f", and the option {' or '.join(options)} is not set" if options else "")


def _cases(ids: Iterable[str]) -> str:
    """The first case, and how many others."""
    first, *others = dict.fromkeys(ids)
    return f"case {first}" + (f" and {len(others)} more" if others else "")


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
