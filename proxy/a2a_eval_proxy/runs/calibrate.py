"""`calibrate`: the judges of a suite compared with labels of stored turns. No agent is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from a2a_tool_capture.models import rfc3339
from tool_call_evaluators.evaluator import EvaluatorBase, evaluate
from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.judge.panel import judge_of
from tool_call_evaluators.judge.question import Answer, Judge, Question, order_swapped
from tool_call_evaluators.judged.base import JudgeableEvaluator, LabelledEvaluator, check_judges
from tool_call_evaluators.model import EvalCase, EvalResult, Status
from tool_call_evaluators.runs.calibration import (
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

from ..errors import UNREACHABLE, ConfigError
from ..privacy.content_removal import lacks_content
from ..privacy.policy import NO_PRIVACY, Privacy
from ..scoring.case_book import CaseBook
from ..scoring.pipeline import MAX_HISTORY
from ..scoring.scorer import Scorer
from ..store import Store
from ..store.base import TurnJson
from ..turn import Turn
from .stored_turns import UnknownRunError, open_existing_store, unknown_run

MAX_ASKED_TWICE = 100
"""Turns on which a judge's consistency is measured; each costs two or three requests past the cache."""
_AT_ONCE = 50  # turns in memory
_MAX_FILE_BYTES = 50_000_000


class NoVerdictError(Exception):
    """A judge gave no verdict on any labelled turn; the message has its reason."""

    exit_code = UNREACHABLE


Advance = Callable[[int, int], object]
"""Called with the number of labelled turns that are done, and of all."""


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
    judged = _judged(suite, metric)
    check_judges(judged.values(), suite.judge)
    given = None if labels is None else await asyncio.to_thread(_read, labels)
    async with open_existing_store(location) as store:
        if run is not None and not await store.runs(run):
            raise UnknownRunError(await unknown_run(store, run))
        if given is None:
            annotations = sorted(await store.annotations(run), key=lambda one: str(one["annotation_id"]))
            found = [label for annotation in annotations if (label := label_of(annotation)) is not None]
        else:
            found = [_named(label, judged, labels) for label in given]
        by_metric = grouped((label.metric or "", label) for label in found if label.metric in judged)
        if not by_metric:
            raise LabelError(_nothing(judged, labels))
        work = _Work(store, suite, run, privacy, advance)
        made = []
        for name, own in by_metric.items():
            for one in await work.calibrations(name, Labels.of(own)):
                made.append(one)
                if one["labelled_turns"]:
                    await store.put_calibration(one)
    return made


def _judged(suite: Suite, metric: str | None) -> dict[str, EvaluatorBase]:
    """The evaluators of turns whose verdict is a judge's, by their metrics. Raises ConfigError."""
    found: dict[str, EvaluatorBase] = {}
    for spec in suite.specs:
        evaluator = spec.build()
        if evaluator.needs_judge and (spec.scope or evaluator.scope) == "turn":
            found.setdefault(evaluator.metric, evaluator)
    names = ", ".join(found) or "none"
    if metric is not None and metric not in found:
        raise ConfigError(f"--evaluator: {metric!r:.80} is no judged evaluator of turns in the suite; it has {names}")
    if not found:
        raise ConfigError("the suite has no judged evaluators of turns: there is nothing to calibrate")
    chosen = found if metric is None else {metric: found[metric]}
    for name, evaluator in chosen.items():
        if evaluator.threshold is None:
            raise ConfigError(f"{name} has no threshold: nothing passes or fails, so no verdict can be right or wrong")
    return chosen


def _read(path: Path) -> list[Label]:
    """Raises OSError, LabelError."""
    with path.open("rb") as file:
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise LabelError(f"{path}: it is larger than {_MAX_FILE_BYTES // 1_000_000} MB")
    return read_labels(data, str(path))


def _named(label: Label, judged: Mapping[str, EvaluatorBase], file: Path | None) -> Label:
    """With its metric. Raises LabelError if that cannot be known, or the evaluator does not have such a label."""
    if label.metric is None:
        if len(judged) > 1:
            raise LabelError(f"the suite has several judges: name one in the column evaluator ({', '.join(judged)})")
        label = replace(label, metric=next(iter(judged)))
    evaluator = judged.get(label.metric or "")
    try:
        if evaluator is not None:
            label_passes(label.value, evaluator)
    except LabelError as error:
        raise LabelError(f"{file}, turn {label.turn_id[:100]}: {error}") from None
    return label


def _nothing(judged: Mapping[str, EvaluatorBase], labels: Path | None) -> str:
    names = " or ".join(judged)
    if labels is not None:
        return f"{labels}: it has no labels of {names}"
    return f"no turn has a label of {names}: give labels on the page /label, or a file with --labels FILE"


_SILENT = "turns without the judge's answer"


@dataclass(slots=True)
class _Asked:
    """The results of asking a judge about a turn: once for the verdict, and again to see whether it says the same."""

    evaluator: JudgeableEvaluator
    first: EvalResult
    again: Sequence[EvalResult] = ()
    swapped: EvalResult | None = None


@dataclass(slots=True)
class _OfJudge:
    """What one judge said about the labelled turns. Cases may have judges of their own for one metric."""

    evaluator: JudgeableEvaluator
    verdicts: dict[str, JudgeVerdict] = field(default_factory=dict)
    consistency: Consistency = field(default_factory=Consistency)
    silent: int = 0
    problem: str = ""

    def add(self, turn_id: str, asked: _Asked) -> None:
        if asked.first.status is Status.ERRORED:
            self.silent += 1
            self.problem = self.problem or asked.first.reason
            return
        self.verdicts[turn_id] = _verdict(asked.first)
        again = [_verdict(result) for result in asked.again if result.score is not None]
        if len(again) > 1:
            self.consistency.count(*again)
        elif asked.again:
            self.consistency.unanswered += 1
        if again and asked.swapped is not None and asked.swapped.score is not None:
            self.consistency.count(again[0], _verdict(asked.swapped), swapped=True)


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
    """Asks the judges about labelled turns."""

    def __init__(self, store: Store, suite: Suite, run: str | None, privacy: Privacy, advance: Advance) -> None:
        self._store = store
        self._run = run
        self._privacy = privacy
        self._advance = advance
        self._cases, seen = CaseBook(suite, privacy=privacy), privacy.suite(suite)
        self._scorer = Scorer(self._cases, seen, privacy.judge_cache(store.judge_cache))
        self._past_cache = Scorer(self._cases, seen)

    async def calibrations(self, metric: str, labels: Labels) -> list[dict[str, Any]]:
        """One for each judge that goes by this metric."""
        judges: dict[tuple[str, float | None], _OfJudge] = {}
        turn_ids = labels.turn_ids
        twice = set(sorted(turn_ids, key=lambda one: sha256(one.encode("utf-8", "replace")).digest())[:MAX_ASKED_TWICE])
        for start in range(0, len(turn_ids), _AT_ONCE):
            part = turn_ids[start : start + _AT_ONCE]
            found = await asyncio.gather(*(self._ask(turn_id, metric, twice=turn_id in twice) for turn_id in part))
            for turn_id, asked in zip(part, found, strict=True):
                if isinstance(asked, str):
                    labels.excluded[asked] += 1
                else:
                    key = asked.evaluator.judge_key, asked.evaluator.threshold
                    judges.setdefault(key, _OfJudge(asked.evaluator)).add(turn_id, asked)
            self._advance(start + len(part), len(turn_ids))
        if silent := sum(judge.silent for judge in judges.values()):
            labels.excluded[_SILENT] += silent
        spoke = [judge for judge in judges.values() if judge.verdicts]
        if silent and not spoke:
            problem = next(judge.problem for judge in judges.values())
            raise NoVerdictError(f"{metric}: no verdict on any of {counted(silent, 'labelled turn')}: {problem}")
        if not spoke:
            why = ", ".join(f"{count:,} {what}" for what, count in labels.excluded.items())
            raise LabelError(f"{metric}: no labelled turn can be judged: {why}")
        at = rfc3339(datetime.now(UTC))
        return [calibration(judge.evaluator, labels, judge.verdicts, judge.consistency, at) for judge in spoke]

    async def _ask(self, turn_id: str, metric: str, *, twice: bool) -> _Asked | str:
        """The judge's answers about a turn; or why the turn is excluded."""
        stored = await self._store.turn(turn_id)
        if stored is None:
            return "unknown turns"
        if self._run is not None and stored["run"] != self._run:
            return "turns of other runs"
        if stored["status"] != "done":
            return "turns that are not scored yet"
        if lacks_content(stored["user_text"]):
            return "turns without content"
        turn = Turn.from_dict(dict(self._privacy.stored_turn(stored)))
        if turn.case_id is None or self._cases.case(turn.case_id) is None:
            turn.case_id = self._cases.case_of(replace(turn, case_id=None))
        evaluator = _evaluator(self._scorer, turn, metric)
        if evaluator is None:
            return "turns of cases that do not have the evaluator"
        try:
            case = await self._case(turn, evaluator, stored)
        except ValueError:
            return "turns that do not fit their case"
        with self._scorer.as_sample(turn.case_id, turn.conversation_id):
            (first,) = await evaluate(case, [evaluator])
        if first.status is Status.SKIPPED:
            return "turns that the evaluator skips"
        if first.status is not Status.ERRORED and (
            first.score is None or "prompt" not in first.details.get("judge", ())
        ):
            return "turns for which no judge is asked"
        asked = _Asked(evaluator, first)
        if twice and first.score is not None and (fresh := _evaluator(self._past_cache, turn, metric)):
            asked.again = [result for _ in range(2) for result in await evaluate(case, [fresh])]
            if isinstance(fresh, LabelledEvaluator):
                (asked.swapped,) = await evaluate(case, [replace(fresh, judge=_SwappedChoices(judge_of(fresh.judge)))])
        return asked

    async def _case(self, turn: Turn, evaluator: EvaluatorBase, stored: TurnJson) -> EvalCase:
        """What the evaluator receives, as it did when the turn was scored. Raises ValueError."""
        found = await self._store.earlier(turn, MAX_HISTORY)
        earlier = [self._privacy.stored_turn(one) for one in found if not lacks_content(one["user_text"])]
        place = sum(one["case_id"] == turn.case_id for one in earlier) if turn.case_id else 0
        case = self._scorer.eval_case(turn, place, earlier)
        if not evaluator.reads_results:
            return case
        others = (EvalResult.from_dict(one) for one in stored["evaluations"] if one["evaluator"] != evaluator.metric)
        return replace(case, results=tuple(others))


def _evaluator(scorer: Scorer, turn: Turn, metric: str) -> JudgeableEvaluator | None:
    found = (one for one in scorer.evaluators(turn.case_id).turn if one.metric == metric)
    return next((one for one in found if isinstance(one, JudgeableEvaluator)), None)
