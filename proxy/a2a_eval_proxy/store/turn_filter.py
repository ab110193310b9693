"""Selects turns by what they contain: by patterns for the database, which find too many at most, then exactly."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import orjson

Verdict = Literal["failed", "errored", "passed", "skipped", "unscored"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_UNSCORED = VERDICTS.index("unscored")
_RANKS: dict[str, int] = {status: rank for rank, status in enumerate(VERDICTS)}
_RANKS["scored"] = _RANKS["passed"]

_ESCAPED = {"!": "!!", "%": "!%", "_": "!_", "\0": "%"}
_LONGEST_PATTERN = 100  # characters of a text that a pattern contains: SQLite limits patterns


def turn_verdict(results: Iterable[Mapping[str, Any]]) -> Verdict:
    """The verdict on a turn with these results, in their JSON form.

    The first of these that one of them has: failed, errored, passed (or scored, without a threshold), skipped; unscored
    without results.
    """
    return VERDICTS[min([_RANKS.get(result["status"], _UNSCORED) for result in results], default=_UNSCORED)]


@dataclass(frozen=True, slots=True)
class TurnFilter:
    """What turns contain; None: anything.

    `verdict` is that of `turn_verdict`, of the results of the `evaluator` if there is one. `text` is searched for,
    whatever the case of its letters, in the user text, the response, the names and arguments of tool calls, and the
    id of the case. The turn belongs to one of `cases`.
    """

    text: str | None = None
    verdict: Verdict | None = None
    tool: str | None = None
    evaluator: str | None = None
    finding: str | None = None
    cases: frozenset[str] | None = None

    def __bool__(self) -> bool:
        return any(getattr(self, item.name) is not None for item in fields(self))

    def patterns(self) -> Iterator[tuple[str, str]]:
        """Columns and what they match with LIKE, escaped by `!`, in every turn that `matches`. ASCII letters of either
        case must be equal for it."""
        if self.text is not None:
            yield "body", f"%{_pattern(self.text, inside=True)}%"
        for name in (self.tool, self.finding):
            if name is not None:
                yield "body", f"%{_pattern(json.dumps(name, ensure_ascii=False))}%"
        if self.evaluator is not None:
            yield "evaluations", f"%{_pattern(json.dumps(self.evaluator, ensure_ascii=False))}%"
        if self.verdict == "unscored":
            yield "evaluations", "[]" if self.evaluator is None else ""
        elif self.verdict is not None:
            yield "evaluations", "___%" if self.verdict == "passed" else f'%"{self.verdict}"%'

    def matches(self, body: str, evaluations: str) -> bool:
        """Whether a turn, as the store has it, contains all this. `cases` are not considered."""
        if self.verdict is not None or self.evaluator is not None:
            results = orjson.loads(evaluations)
            if self.evaluator is not None:
                results = [result for result in results if result["evaluator"] == self.evaluator]
                if not results:
                    return False
            if self.verdict not in (None, turn_verdict(results)):
                return False
        looked_for = (self.text, self.tool, self.finding)
        return not any(one is not None for one in looked_for) or self._is_in(orjson.loads(body))

    def _is_in(self, turn: dict[str, Any]) -> bool:
        calls, findings = turn["tool_calls"], turn["findings"]
        return (
            (self.tool is None or any(call["name"] == self.tool for call in calls))
            and (self.finding is None or any(finding["code"] == self.finding for finding in findings))
            and (self.text is None or _has_text(turn, _folded(self.text)))
        )


ANY_TURN = TurnFilter()


def _has_text(turn: dict[str, Any], text: str) -> bool:
    texts = [turn["user_text"], turn["response_text"], turn["case_id"] or ""]
    for call in turn["tool_calls"]:
        texts += [call["name"], orjson.dumps(call["arguments"]).decode()]
    return any(text in _folded(searched) for searched in texts)


def _folded(text: str) -> str:
    """In lower case, wherever in a word a letter is."""
    return text.lower().replace("ς", "σ")


def _pattern(text: str, *, inside: bool = False) -> str:
    """`text` as part of a LIKE pattern. `inside` of a JSON string: characters that JSON may escape match anything, and
    those that are not ASCII, which may have another case."""
    loose = (character if " " <= character <= "~" and character not in '"\\' else "\0" for character in text)
    characters = loose if inside else text
    return "".join(_ESCAPED.get(character, character) for character in itertools.islice(characters, _LONGEST_PATTERN))
