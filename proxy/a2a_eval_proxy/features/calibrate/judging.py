"""`calibrate`: the judges of a suite compared with labels of stored turns and conversations. No agent is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from a2a_tool_capture.models import rfc3339
from tool_call_evaluators.evaluator import EvaluatorBase, Scope, evaluate
from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.judge.panel import judge_of
from tool_call_evaluators.judge.question import Answer, Judge, Question, order_swapped
from tool_call_evaluators.judged.base import JudgeableEvaluator, LabelledEvaluator, check_judges
from tool_call_evaluators.metrics.conversation_scores import evaluate_conversation
from tool_call_evaluators.model import EvalCase, EvalResult, Status
from tool_call_evaluators.outcomes.calibration import (
    Consistency,
    JudgeVerdict,
    Label,
    LabelError,
    Labels,
    calibration,
    label_of,
    label_passes,
    read_labels,
)
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.texts import counted

from ...errors import UNREACHABLE, ConfigError
from ...privacy.policy import NO_PRIVACY, Privacy
from ...privacy.redactor import lacks_content
from ...runs.stored_turns import UnknownRunError, open_existing_store, unknown_run
from ...scoring.case_book import CaseBook
from ...scoring.evidence import trees_read_by
from ...scoring.scorer import MAX_EARLIER, Scorer
from ...store import Store, TurnQuery
from ...store.base import TurnJson
from ...store.store import every_turn
from ...turn import Turn

MAX_ASKED_TWICE = 100
"""Turns or conversations on which a judge's consistency is measured; each costs two or three requests past the
cache."""
_AT_ONCE = 50  # turns or conversations in memory
_MAX_FILE_BYTES = 50_000_000


class NoVerdictError(Exception):
    """A judge gave no verdict on any labelled turn; the message has its reason."""

    exit_code = UNREACHABLE


Advance = Callable[[int, int], object]
"""Called with the number of labelled turns or conversations that are done, and of all."""


async def calibrate(
    suite: Suite,
    location: str,
    run: str | None = None,
    metric: str | None = None,
    labels: Path | None = None,
    *,
    privacy: Privacy = NO_PRIVACY,
    advance: Advance = lambda done, of: None,
) -> list[dict[str, Any]]:
    """Calibrate the judges of `suite`, or the one of `metric`, and keep the results in the store at `location`.

    The labels are those of the file `labels`, else the annotations in the store; of the turns of `run`, or (None) of
    all. Judges see the turns as `privacy` redacts them. Returns the calibrations (JSON forms).
    Raises StoreError; LabelError for a bad file, or where nothing is labelled; ConfigError for a metric without a judge
    or threshold; JudgeNotConfiguredError; NoVerdictError. What was compared by then is kept.
    """
    judged, scopes = _judged(suite, metric)
    check_judges(judged.values(), suite.judge)
    given = None if labels is None else await asyncio.to_thread(_read, labels)
    async with open_existing_store(location) as store:
        if run is not None and not await store.runs(run):
            raise UnknownRunError(await unknown_run(store, run))
        if given is None:
            annotations = sorted(await store.annotations(run), key=lambda one: str(one["annotation_id"]))
            found = [label for annotation in annotations if (label := label_of(annotation)) is not None]
        else:
            found = [_named(label, judged, scopes, labels) for label in given]
        by_metric = grouped((label.metric or "", label) for label in found if label.metric in judged)
        if not by_metric:
            how = "give some on the page /label of `ui` or `serve`, or a file with --labels FILE"
            names = " or ".join(judged)
            raise LabelError(
                f"{labels}: it has no labels of {names}" if labels else f"there are no labels of {names}: {how}"
            )
        made = []
        for name, own in by_metric.items():
            work = _Work(store, suite, run, privacy, advance, scopes[name])
            for one in await work.calibrations(name, own):
                made.append(one)
                if one["labelled_turns"]:
                    await store.put_calibration(one)
    return made


def _judged(suite: Suite, metric: str | None) -> tuple[dict[str, EvaluatorBase], dict[str, Scope]]:
    """The evaluators whose verdict is a judge's, and what they judge, by their metrics. Raises ConfigError."""
    found: dict[str, EvaluatorBase] = {}
    scopes: dict[str, Scope] = {}
    for spec in suite.specs:
        evaluator = spec.build()
        if suite.needs_judge(evaluator):
            found.setdefault(evaluator.metric, evaluator)
            scopes.setdefault(evaluator.metric, spec.scope or evaluator.scope)
    names = ", ".join(found) or "none"
    if metric is not None and metric not in found:
        raise ConfigError(f"--evaluator: {metric!r:.80} is no judged evaluator of the suite; it has {names}")
    if not found:
        raise ConfigError("the suite has no judged evaluators: there is nothing to calibrate")
    chosen = found if metric is None else {metric: found[metric]}
    for name, evaluator in chosen.items():
        if evaluator.threshold is None:
            raise ConfigError(f"{name} has no threshold: nothing passes or fails, so no verdict can be right or wrong")
    return chosen, scopes


def _read(path: Path) -> list[Label]:
    """Raises OSError, LabelError."""
    with path.open("rb") as file:
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise LabelError(f"{path}: it is larger than {_MAX_FILE_BYTES // 1_000_000} MB")
    return read_labels(data, str(path))


def _named(label: Label, judged: Mapping[str, EvaluatorBase], scopes: Mapping[str, Scope], file: Path | None) -> Label:
    """With its metric. Raises LabelError if that cannot be known, or the evaluator has no such label or judges turns
    only."""
    if label.metric is None:
        if len(judged) > 1:
            raise LabelError(f"the suite has several judges: name one in the column evaluator ({', '.join(judged)})")
        label = replace(label, metric=next(iter(judged)))
    evaluator = judged.get(label.metric or "")
    try:
        if evaluator is not None:
            label_passes(label.value, evaluator)
            if label.conversation_id and scopes[evaluator.metric] == "turn":
                raise LabelError(f"{evaluator.metric} judges turns: name one in the column turn_id")
    except LabelError as error:
        of = f"conversation {label.conversation_id[:100]}" if label.conversation_id else f"turn {label.turn_id[:100]}"
        raise LabelError(f"{file}, {of}: {error}") from None
    return label


_Asked: TypeAlias = tuple[JudgeableEvaluator, EvalResult, Sequence[EvalResult], EvalResult | None]
"""The results of asking a judge: once for the verdict, twice past the cache, and with the choices swapped."""


@dataclass(slots=True)
class _OfJudge:
    """What one judge said about what is labelled. Cases may have judges of their own for one metric."""

    evaluator: JudgeableEvaluator
    verdicts: dict[str, JudgeVerdict] = field(default_factory=dict)
    consistency: Consistency = field(default_factory=Consistency)
    silent: int = 0
    problem: str = ""

    def add(self, turn_id: str, first: EvalResult, twice: Sequence[EvalResult], swapped: EvalResult | None) -> None:
        """The result of asking a judge, and those of asking it again to see whether it says the same."""
        if first.status is Status.ERRORED:
            self.silent += 1
            self.problem = self.problem or first.reason
            return
        self.verdicts[turn_id] = _verdict(first)
        again = [_verdict(result) for result in twice if result.score is not None]
        if len(again) > 1:
            self.consistency.same.append(again[0].agrees(again[1]))
        elif twice:
            self.consistency.unanswered += 1
        if again and swapped is not None and swapped.score is not None:
            self.consistency.swapped.append(again[0].agrees(_verdict(swapped)))


def _verdict(result: EvalResult) -> JudgeVerdict:
    judge = result.details["judge"]
    return JudgeVerdict(bool(result.passed), result.score or 0.0, result.label, judge["model"], judge["prompt"])


class _SwappedChoices:
    """A judge that is asked with the choices in the opposite order."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def ask(self, question: Question) -> Answer:
        return await self._judge.ask(order_swapped(question))


class _Work:
    """Asks the judges about labelled turns, or labelled conversations."""

    def __init__(
        self, store: Store, suite: Suite, run: str | None, privacy: Privacy, advance: Advance, scope: Scope
    ) -> None:
        self._store = store
        self._scope = scope
        self._run = run
        self._privacy = privacy
        self._advance = advance
        self._cases, seen = CaseBook(suite, privacy=privacy), privacy.suite(suite)
        self._scorer = Scorer(self._cases, seen, privacy.judge_cache(store.judge_cache))
        self._past_cache = Scorer(self._cases, seen)

    async def calibrations(self, metric: str, given: Sequence[Label]) -> list[dict[str, Any]]:
        """One for each judge that goes by this metric."""
        labels = Labels.of(given) if self._scope == "turn" else await self._of_conversations(given)
        judges: dict[tuple[str, float | None], _OfJudge] = {}
        turn_ids = list(labels.people)
        twice = set(sorted(turn_ids, key=lambda one: sha256(one.encode("utf-8", "replace")).digest())[:MAX_ASKED_TWICE])
        for start in range(0, len(turn_ids), _AT_ONCE):
            part = turn_ids[start : start + _AT_ONCE]
            found = await asyncio.gather(*(self._ask(turn_id, metric, twice=turn_id in twice) for turn_id in part))
            for turn_id, asked in zip(part, found, strict=True):
                if isinstance(asked, str):
                    labels.excluded[asked] += 1
                else:
                    evaluator = asked[0]
                    key = evaluator.judge_key, evaluator.threshold
                    judges.setdefault(key, _OfJudge(evaluator)).add(turn_id, *asked[1:])
            self._advance(start + len(part), len(turn_ids))
        if silent := sum(judge.silent for judge in judges.values()):
            labels.excluded[f"{self._scope}s without the judge's answer"] += silent
        spoke = [judge for judge in judges.values() if judge.verdicts]
        if silent and not spoke:
            problem = next(judge.problem for judge in judges.values())
            asked_about = counted(silent, f"labelled {self._scope}")
            raise NoVerdictError(f"{metric}: no verdict on any of {asked_about}: {problem}")
        if not spoke:
            why = ", ".join(f"{count:,} {what}" for what, count in labels.excluded.items())
            raise LabelError(f"{metric}: no labelled {self._scope} can be judged: {why}")
        at = rfc3339(datetime.now(UTC))
        made = [
            calibration(judge.evaluator, labels, judge.verdicts, judge.consistency, at, self._scope) for judge in spoke
        ]
        if self._scope == "conversation":
            for found in (found for one in made for found in one["disagreements"]):
                turn = await self._store.turn(found["turn_id"]) or {}
                found |= {"run": turn.get("run"), "conversation_id": turn.get("conversation_id")}
        return made

    async def _of_conversations(self, given: Sequence[Label]) -> Labels:
        """The labels by the first turn of their conversation, whichever turn they were given with."""
        named = {(label.turn_id, label.conversation_id) for label in given}
        first_turns = {one: await self._first_turns(*one) for one in named}
        found = [(label, first_turns[label.turn_id, label.conversation_id]) for label in given]
        labels = Labels.of(replace(label, turn_id=first[0]) for label, first in found if len(first) == 1)
        if ambiguous := sum(len(first) > 1 for _, first in found):
            labels.excluded["labels of a conversation id of several runs or cases"] += ambiguous
        return labels

    async def _first_turns(self, turn_id: str, conversation_id: str) -> list[str]:
        """The first turn of the conversation of this turn; or of each with this id, of other runs and cases."""
        turn = await self._store.turn(turn_id) if turn_id else None
        name = turn["conversation_id"] if turn else conversation_id
        if not name:
            return [turn_id]
        query = TurnQuery(run=turn["run"] if turn else self._run, conversation=name, summary=True)
        firsts: dict[tuple[str, str | None], str] = {}
        async for one in every_turn(self._store, query):
            if turn is None or one["case_id"] == turn["case_id"]:
                firsts.setdefault((one["run"], one["case_id"]), one["turn_id"])
        return list(firsts.values()) or [turn_id or name]  # a turn without a conversation is one by its own id

    async def _ask(self, turn_id: str, metric: str, *, twice: bool) -> _Asked | str:
        """A judge's answers about a turn, or the conversation that begins with it; or why that is excluded."""
        them = f"{self._scope}s"
        stored = await self._store.turn(turn_id)
        if stored is None:
            return f"unknown {them}"
        if self._run is not None and stored["run"] != self._run:
            return f"{them} of other runs"
        turns = [stored] if self._scope == "turn" else await self._conversation(stored)
        if any(one["status"] != "done" for one in turns):
            return f"{them} that are not scored yet"
        if any(lacks_content(one["user_text"]) for one in turns):
            return f"{them} without content"
        turn = Turn.from_dict(dict(self._privacy.stored_turn(stored)))
        if turn.case_id is None or self._cases.case(turn.case_id) is None:
            turn.case_id = self._cases.case_of(replace(turn, case_id=None))
        evaluator = self._evaluator(self._scorer, turn, metric)
        if evaluator is None:
            return f"{them} of cases that do not have the evaluator"
        try:
            of_turn = self._scope == "turn"
            case = await (self._case(turn, evaluator, stored) if of_turn else self._whole(turn, turns))
        except ValueError:
            return f"{them} that do not fit their case"
        if case is None:
            return f"{them} that are not over"
        with self._scorer.as_sample(turn.case_id, turn.conversation_id):
            first = await _result(case, evaluator)
        if first.status is Status.SKIPPED:
            return f"{them} that the evaluator skips"
        if first.status is not Status.ERRORED and (
            first.score is None or "prompt" not in first.details.get("judge", ())
        ):
            return f"{them} for which no judge is asked"
        again, swapped = list[EvalResult](), None
        if twice and first.score is not None and (fresh := self._evaluator(self._past_cache, turn, metric)):
            again = [await _result(case, fresh) for _ in range(2)]
            if isinstance(fresh, LabelledEvaluator):
                swapped = await _result(case, replace(fresh, judge=_SwappedChoices(judge_of(fresh.judge))))
        return evaluator, first, again, swapped

    async def _conversation(self, first: TurnJson) -> list[TurnJson]:
        """The turns of the conversation and case of this turn."""
        if not first["conversation_id"]:
            return [first]
        query = TurnQuery(run=first["run"], conversation=first["conversation_id"])
        return [one async for one in every_turn(self._store, query) if one["case_id"] == first["case_id"]]

    async def _whole(self, first: Turn, turns: Sequence[TurnJson]) -> EvalCase | None:
        """What the evaluator receives of a conversation; None where it is not over. Raises ValueError."""
        seen = [{**self._privacy.stored_turn(one), "case_id": first.case_id} for one in turns]
        trees = await trees_read_by(self._scorer, self._store, seen, self._privacy)
        found = self._scorer.whole_case(seen, trees)
        if isinstance(found, list):
            raise ValueError("it is invalid, or does not fit its case")
        return found

    async def _case(self, turn: Turn, evaluator: EvaluatorBase, stored: TurnJson) -> EvalCase:
        """What the evaluator receives, as it did when the turn was scored. Raises ValueError."""
        found = await self._store.earlier(turn, MAX_EARLIER, turn.agent_of_conversation)
        earlier = [self._privacy.stored_turn(one) for one in found]
        read = [{**stored, "case_id": turn.case_id}]
        trees = await trees_read_by(self._scorer, self._store, read, self._privacy)
        case = self._scorer.eval_case(turn, earlier, trees.get(turn.turn_id))
        if not evaluator.reads_results:
            return case
        return replace(
            case,
            results=tuple(
                EvalResult.from_dict(one) for one in stored["evaluations"] if one["evaluator"] != evaluator.metric
            ),
        )

    def _evaluator(self, scorer: Scorer, turn: Turn, metric: str) -> JudgeableEvaluator | None:
        in_force = scorer.evaluators(turn.case_id)
        of_scope = in_force.turn if self._scope == "turn" else in_force.conversation
        found = (one for one in of_scope if one.metric == metric)
        return next((one for one in found if isinstance(one, JudgeableEvaluator)), None)


async def _result(case: EvalCase, evaluator: EvaluatorBase) -> EvalResult:
    if case.turns is None:
        (result,) = await evaluate(case, [evaluator])
    else:
        (result,) = (await evaluate_conversation(case, [evaluator])).results
    return result
