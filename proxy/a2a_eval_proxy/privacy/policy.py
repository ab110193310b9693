"""What may be seen of a turn, and what may be kept: the one place through which turns leave capture."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.errors import ConfigurationError
from a2a_tool_capture.secret_references import resolve
from tool_call_evaluators.judge.cache import JudgeCache
from tool_call_evaluators.suite import Suite

from ..errors import ConfigError
from ..turn import Turn
from .content_removal import result_without_content, without_content
from .redactor import Redactor, Rule
from .rules import hashes
from .suites import redacted_suite

logger = logging.getLogger(__name__)

_FAILED = "redaction-failed"
"""What stands for names that could not be redacted."""


class Privacy:
    """Turns `shown` to evaluators and judges are redacted; what is `stored` of them may be shapes alone.

    `redactor` is None where there are no rules.
    """

    def __init__(self, redactor: Redactor | None, *, keeps_content: bool = True) -> None:
        self.redactor = redactor
        self.keeps_content = keeps_content

    def shown(self, turn: Turn) -> Turn:
        """The turn as it may be seen. Never raises: of one that cannot be redacted nothing is shown that was said."""
        if self.redactor is None:
            return turn
        try:
            return self.redactor.turn(turn)
        except Exception as error:  # noqa: BLE001  # the wall; the message of the error may quote what is not to be seen
            logger.error("turn %s could not be redacted (%s); its content is not kept", turn.turn_id, type(error))
            problem = Finding("redaction_failed", "it could not be redacted; its content is not kept", Severity.ERROR)
            bare = replace(without_content(turn), tool_calls=[], findings=[problem])
            return replace(bare, run=_FAILED, conversation_id="", task_id="")

    def stored(self, turn: Turn) -> Turn:
        """What is kept of a turn that is `shown`."""
        return turn if self.keeps_content else without_content(turn)

    def stored_results(self, results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What is kept of evaluation results (JSON form). Evaluators quote, and custom ones say what they like."""
        bare = [result_without_content(result) for result in results]
        if not self.keeps_content or self.redactor is None:
            return bare if not self.keeps_content else [dict(result) for result in results]
        redact = self.redactor.value
        try:
            return [{**item, "reason": redact(item["reason"]), "details": redact(item["details"])} for item in results]
        except Exception as error:  # noqa: BLE001  # the wall, as above
            logger.error("evaluation results could not be redacted (%s); their reasons are not kept", type(error))
            return bare

    def stored_turn(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        """A turn in its JSON form from a store that may have been filled under other rules, as it may be seen."""
        shown = self.shown(Turn.from_dict(dict(turn))).to_dict()
        return {**turn, **shown, "evaluations": self.stored_results(turn["evaluations"])}

    def identifier(self, text: str) -> str:
        """An id that somebody else chose. Never raises."""
        try:
            return text if self.redactor is None else self.redactor.identifier(text)
        except Exception as error:  # noqa: BLE001  # the wall, as above
            logger.error("an id could not be redacted (%s)", type(error))
            return _FAILED

    def text(self, text: str) -> str:
        """A text about turns, for people. Never raises."""
        try:
            return text if self.redactor is None else self.redactor.text(text)
        except Exception:  # noqa: BLE001  # the wall, as above; not logged: this may be a line of the log
            return _FAILED

    @property
    def covers_texts(self) -> bool:
        """Whether a `text` holds nothing that turns may not. Where not, what others said is not to be told at all."""
        return self.keeps_content and not (self.redactor is not None and self.redactor.has_paths)

    def suite(self, suite: Suite) -> Suite:
        """The suite as turns are held against it."""
        return suite if self.redactor is None else redacted_suite(suite, self.redactor)


def redactor_of(privacy: Privacy | None) -> Redactor | None:
    """That of its rules; None where there are none."""
    return None if privacy is None else privacy.redactor


def judge_cache_of(cache: JudgeCache, privacy: Privacy | None) -> JudgeCache | None:
    """The store's `cache` of judges' answers; None where content must not be stored, since these answers quote it."""
    return cache if privacy is None or privacy.keeps_content else None


def privacy_of(rules: Sequence[Rule], key: str | None, *, no_content: bool = False) -> Privacy | None:
    """What the settings ask for; None where that is nothing, so that nothing is done.

    `${VARIABLE}` and `${file:PATH}` in `key` are filled in. Without a key, ids are hashed with one that nobody knows.
    Raises ConfigError for a variable or file that cannot be had or is empty, and for rules that hash without a key.
    """
    if not rules and not no_content:
        return None
    if key is None and hashes(rules):
        raise ConfigError(
            "redact: the action hash needs a key, else equal values differ in the next process; give --redact-key "
            "'${VARIABLE}'"
        )
    hashed_with = secrets.token_bytes(32) if key is None else _filled(key).encode()
    return Privacy(Redactor(rules, hashed_with) if rules else None, keeps_content=not no_content)


def _filled(key: str) -> str:
    try:
        filled = resolve("redact_key", key)
    except ConfigurationError as error:
        raise ConfigError(str(error)) from None
    if not filled:
        raise ConfigError("redact_key: expected a text that nobody can guess, got an empty one")
    return filled
