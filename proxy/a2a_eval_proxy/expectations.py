"""Cases redacted by the rules for turns, so that what was expected is still what was seen. Pure."""

from __future__ import annotations

from dataclasses import replace

from tool_call_evaluators.placeholders import is_placeholder
from tool_call_evaluators.suite import Case, CaseTurn, Expectation, Suite

from .redaction import Redactor


def redacted_suite(suite: Suite, redactor: Redactor) -> Suite:
    """The suite as turns are held against it. What is sent to the agent is not taken from it."""
    return replace(suite, cases=tuple(redacted_case(case, redactor) for case in suite.cases))


def redacted_case(case: Case, redactor: Redactor) -> Case:
    """The case with redacted texts and calls, with which turns are compared. Options of evaluators stay as they are."""
    redactor = redactor.sparing(is_placeholder)
    return replace(
        case,
        turns=tuple(CaseTurn(redactor.text(turn.user), _expectation(turn.expect, redactor)) for turn in case.turns),
        expect=_expectation(case.expect, redactor),
        user_goal=_optional(case.user_goal, redactor),
        knowledge=_optional(case.knowledge, redactor),
        tasks=_all(case.tasks, redactor),
        constraints=_all(case.constraints, redactor),
    )


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


def _optional(text: str | None, redactor: Redactor) -> str | None:
    return None if text is None else redactor.text(text)


def _all(texts: tuple[str, ...] | None, redactor: Redactor) -> tuple[str, ...] | None:
    return None if texts is None else tuple(redactor.text(text) for text in texts)
