"""Redacts turns for evaluators and removes content for the store: every captured turn passes through here.

Redacts cases by the same rules, so that expected and actual values still match.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.errors import ConfigurationError
from a2a_tool_capture.secret_references import resolve
from tool_call_evaluators.judge.cache import JudgeCache
from tool_call_evaluators.matching.placeholders import is_placeholder
from tool_call_evaluators.suite import Case, Expectation, History, Simulation, Suite

from ..errors import ConfigError
from ..turn import Turn
from .redactor import (
    NO_RULES,
    RedactionRule,
    Redactor,
    hashes,
    length_only,
    parse_rules,
    result_without_content,
    user_without_content,
    without_content,
)

logger = logging.getLogger(__name__)
T = TypeVar("T")


def redacted_case(case: Case, redactor: Redactor) -> Case:
    """Returns the case with redacted texts and calls. Options of evaluators are unchanged."""
    if not redactor.has_rules:
        return case
    redactor = redactor.sparing(is_placeholder)
    texts: dict[str, Any] = {
        item.name: _texts(getattr(case, item.name), redactor) for item in fields(case) if item.name not in _KEPT
    }
    turns = tuple(
        replace(turn, user=redactor.text(turn.user), expect=_expectation(turn.expect, redactor)) for turn in case.turns
    )
    simulate = case.simulate and _simulation(case.simulate, redactor)
    return replace(
        case,
        given=_given(case.given, redactor),
        turns=turns,
        simulate=simulate,
        expect=_expectation(case.expect, redactor),
        **texts,
    )


_KEPT = {
    "id",
    "tags",
    "agent",
    "repeat",
    "tools",
    "evaluators",
    "given",
    "turns",
    "simulate",
    "expect",
    "tool_classes",
    "prices",
    "depth",
}
"""Fields of a case that are not redacted as texts. All others are, including fields that are added later."""


def _given(given: History, redactor: Redactor) -> History:
    turns = (
        replace(turn, user=redactor.text(turn.user), answer=_optional(turn.answer, redactor)) for turn in given.turns
    )
    return replace(given, turns=tuple(turns), simulate=given.simulate and _simulation(given.simulate, redactor))


def _simulation(simulate: Simulation, redactor: Redactor) -> Simulation:
    values = {item.name: getattr(simulate, item.name) for item in fields(simulate)}
    texts: dict[str, Any] = {
        name: _texts(value, redactor) for name, value in values.items() if isinstance(value, str | tuple)
    }
    return replace(simulate, **texts)


def _expectation(expect: Expectation, redactor: Redactor) -> Expectation:
    outputs, world = expect.tool_outputs, expect.state_of_world
    return replace(
        expect,
        tool_calls=None if expect.tool_calls is None else tuple(redactor.calls(expect.tool_calls)),
        forbidden_calls=None
        if expect.forbidden_calls is None
        else tuple(
            replace(call, arguments=redacted.arguments)
            for call, redacted in zip(expect.forbidden_calls, redactor.calls(expect.forbidden_calls), strict=True)
        ),
        approval=expect.approval and replace(expect.approval, arguments=redactor.value(expect.approval.arguments)),
        agents=None
        if expect.agents is None
        else tuple(replace(agent, given=tuple(map(redactor.text, agent.given))) for agent in expect.agents),
        tool_outputs=None if outputs is None else tuple(o._replace(output=redactor.text(o.output)) for o in outputs),
        response=redactor.value(expect.response),
        response_contains=_optional(expect.response_contains, redactor),
        behavior=_optional(expect.behavior, redactor),
        state_of_world=world and replace(world, equals=redactor.value(world.equals)),
    )


def _texts(value: str | tuple[str, ...] | None, redactor: Redactor) -> str | tuple[str, ...] | None:
    return tuple(map(redactor.text, value)) if isinstance(value, tuple) else _optional(value, redactor)


def _optional(text: str | None, redactor: Redactor) -> str | None:
    return None if text is None else redactor.text(text)


_EVERY_TEXT = Redactor(parse_rules([{"pattern": "(?s).+"}]), b"")
_FAILED = "redaction-failed"  # replaces an id or text that could not be redacted


def _guarded(redacted: Callable[[], T], bare: Callable[[], T], what: str = "") -> T:
    """What was redacted, or where that fails `bare`, which has no content. `what` is named in the log; "" for no line,
    where the text may be a log line itself."""
    try:
        return redacted()
    except Exception as error:  # noqa: BLE001  # error boundary; the error's message may quote content
        if what:
            logger.error("%s could not be redacted (%s); its content is not kept", what, type(error))
        return bare()


def _bare(turn: Turn) -> Turn:
    """A turn without its content, and with the finding that says why."""
    problem = Finding("redaction_failed", "it could not be redacted; its content is not kept", Severity.ERROR)
    bare = replace(without_content(turn), tool_calls=[], findings=[problem])
    links = turn.links and turn.links._replace(names=())
    return replace(bare, run=_FAILED, conversation_id="", task_id="", links=links)


class Privacy:
    """`redacted` turns go to evaluators and judges; `stored` turns may lack their content."""

    def __init__(self, redactor: Redactor = NO_RULES, *, keeps_content: bool = True) -> None:
        self.redactor = redactor
        self.keeps_content = keeps_content
        self.changes_turns = redactor.has_rules or not keeps_content  # False: every method returns what it is given

    def redacted(self, turn: Turn) -> Turn:
        """Returns the redacted turn. Never raises: a turn that cannot be redacted is returned without content."""
        if not self.redactor.has_rules:
            return turn
        return _guarded(lambda: self.redactor.turn(turn), lambda: _bare(turn), f"turn {turn.turn_id}")

    def stored(self, turn: Turn) -> Turn:
        """Returns the part of a redacted turn to store."""
        return turn if self.keeps_content else without_content(turn)

    def stored_results(self, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the part of evaluation results (JSON form) to store: their reasons and details quote turns."""
        if not self.changes_turns:
            return results

        def bare() -> list[dict[str, Any]]:
            return [result_without_content(result) for result in results]

        def redacted() -> list[dict[str, Any]]:
            redact = self.redactor.value
            return [{**item, "reason": redact(item["reason"]), "details": redact(item["details"])} for item in results]

        return _guarded(redacted, bare, "evaluation results") if self.keeps_content else bare()

    def stored_user(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the part of the record of a simulated user (JSON form) to store. Never raises."""
        redacted = _guarded(
            lambda: self.redactor.simulated_user(record),
            lambda: user_without_content(record),
            "the record of a simulated user",
        )
        return redacted if self.keeps_content else user_without_content(redacted)

    def stored_turn(self, turn: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the redacted JSON form of a turn from a store that other rules may have filled."""
        if not self.changes_turns:
            return turn
        redacted = self.redacted(Turn.from_dict(dict(turn))).to_dict()
        return {**turn, **redacted, "evaluations": self.stored_results(turn["evaluations"])}

    def stored_note(self, text: str) -> str:
        """Returns the part of a person's text about a turn to store. Never raises."""
        return self.text(text) if self.keeps_content else length_only(text)

    def identifier(self, text: str) -> str:
        """Returns a redacted id of the client or agent. Never raises."""
        if not self.redactor.has_rules:
            return text
        return _guarded(lambda: self.redactor.identifier(text), lambda: _FAILED, "an id")

    def text(self, text: str) -> str:
        """Returns a redacted message about turns. Never raises."""
        return _guarded(lambda: self.redactor.text(text), lambda: _FAILED) if self.redactor.has_rules else text

    @property
    def covers_texts(self) -> bool:
        """Whether `text` applies every rule. If not, messages must not quote clients or agents."""
        return self.keeps_content and not self.redactor.has_names

    def suite(self, suite: Suite) -> Suite:
        """Returns the suite for comparison with redacted turns. Messages to the agent come from the original suite."""
        return replace(suite, cases=tuple(redacted_case(case, self.redactor) for case in suite.cases))

    def kept_suite(self, suite: Suite) -> Suite:
        """Returns the suite as a run keeps it: as `suite`, and where content must not be stored, without texts."""
        suite = self.suite(suite)
        return suite if self.keeps_content else Privacy(_EVERY_TEXT).suite(suite)

    def judge_cache(self, cache: JudgeCache) -> JudgeCache | None:
        """Returns `cache`, or None if content must not be stored: cached answers of judges quote it."""
        return cache if self.keeps_content else None


NO_PRIVACY = Privacy()


def together(every: Iterable[Privacy]) -> Privacy:
    """The rules of several agents together, for texts that may be of any of them, such as log lines."""
    listed = list(every)
    joined = Redactor.joined(privacy.redactor for privacy in listed)
    return Privacy(joined, keeps_content=all(privacy.keeps_content for privacy in listed))


def privacy_of(rules: Sequence[RedactionRule], key: str | None, *, no_content: bool = False) -> Privacy:
    """Returns the privacy of the settings; NO_PRIVACY if they neither redact nor remove content.

    Resolves `${VARIABLE}` and `${file:PATH}` in `key`. Without a key, a random one hashes ids.
    Raises ConfigError for a missing or empty variable or file, and for rules with the action hash without a key.
    """
    if not rules and not no_content:
        return NO_PRIVACY
    if key is None and hashes(rules):
        raise ConfigError(
            "redact: the action hash needs a key, else equal values differ in the next process; give --redact-key "
            "'${VARIABLE}'"
        )
    hashed_with = secrets.token_bytes(32) if key is None else _filled(key).encode()
    return Privacy(Redactor(rules, hashed_with), keeps_content=not no_content)


def _filled(key: str) -> str:
    try:
        filled = resolve("redact_key", key)
    except ConfigurationError as error:
        raise ConfigError(str(error)) from None
    if not filled:
        raise ConfigError("redact_key: expected a secret string, got an empty one")
    return filled
