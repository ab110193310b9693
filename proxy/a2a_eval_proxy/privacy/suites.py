"""Redacts cases by the rules for turns, so that expected and actual values still match. Pure."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from tool_call_evaluators.matching.placeholders import is_placeholder
from tool_call_evaluators.suite import Case, CaseTurn, Expectation, Simulation, Suite

from .redactor import Redactor


def redacted_suite(suite: Suite, redactor: Redactor) -> Suite:
    """Returns the suite for comparison with redacted turns. Messages to the agent come from the original suite."""
    return replace(suite, cases=tuple(redacted_case(case, redactor) for case in suite.cases))


def redacted_case(case: Case, redactor: Redactor) -> Case:
    """Returns the case with redacted texts and calls. Options of evaluators are unchanged."""
    if not redactor.has_rules:
        return case
    redactor = redactor.sparing(is_placeholder)
    texts: dict[str, Any] = {
        item.name: _texts(getattr(case, item.name), redactor) for item in fields(case) if item.name not in _KEPT
    }
    turns = tuple(CaseTurn(redactor.text(turn.user), _expectation(turn.expect, redactor)) for turn in case.turns)
    simulate = case.simulate and _simulation(case.simulate, redactor)
    return replace(case, turns=turns, simulate=simulate, expect=_expectation(case.expect, redactor), **texts)


_KEPT = {"id", "tags", "repetitions", "tools", "evaluators", "turns", "simulate", "expect"}
"""Fields of a case that are not redacted as texts. All others are, including fields that are added later."""


def _simulation(simulate: Simulation, redactor: Redactor) -> Simulation:
    values = {item.name: getattr(simulate, item.name) for item in fields(simulate)}
    texts: dict[str, Any] = {
        name: _texts(value, redactor) for name, value in values.items() if isinstance(value, str | tuple)
    }
    return replace(simulate, **texts)


def _expectation(expect: Expectation, redactor: Redactor) -> Expectation:
    outputs = expect.tool_outputs
    return replace(
        expect,
        tool_calls=None if expect.tool_calls is None else tuple(redactor.calls(expect.tool_calls)),
        tool_outputs=None if outputs is None else tuple(o._replace(output=redactor.text(o.output)) for o in outputs),
        response=redactor.value(expect.response),
        response_contains=_optional(expect.response_contains, redactor),
        behavior=_optional(expect.behavior, redactor),
    )


def _texts(value: str | tuple[str, ...] | None, redactor: Redactor) -> str | tuple[str, ...] | None:
    return tuple(map(redactor.text, value)) if isinstance(value, tuple) else _optional(value, redactor)


def _optional(text: str | None, redactor: Redactor) -> str | None:
    return None if text is None else redactor.text(text)
