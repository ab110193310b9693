"""A judge calibrated by labels of people: how far it agrees, and what every score of that judge says about it.

A *label* is what a rater says about a turn, or about a whole conversation: whether it passes by a metric, its grade, or
the name of a label. Labels of models are counted apart. A *calibration* holds for one judge
(`JudgeableEvaluator.judge_key`) and threshold, of turns or of conversations; what changed since makes it *stale*. Its
JSON form is what stores keep and what all texts are made of.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, model_validator

from ..evaluator import EvaluatorBase, Scope
from ..grouping import grouped
from ..judged.base import JudgeableEvaluator, LabelledEvaluator
from ..texts import counted, printable
from .agreement import (
    Confusion,
    Estimate,
    Level,
    cohen_kappa,
    corrected_rate,
    krippendorff_alpha,
    proportion,
)

MIN_LABELS = 50
"""Labelled turns for a claim: with fewer, an interval of the agreement is wider than 20 points."""
MAX_DISAGREEMENTS = 200
"""Those that a calibration names; the others are counted."""
MAX_RATER = 100  # characters

LabelValue = bool | float | str
"""Whether it passes; a grade on the evaluator's scale; or one of its labels."""


@dataclass(frozen=True, slots=True)
class Label:
    """What a rater says about a turn, or about the conversation that it is part of: that depends on the judge.

    `metric` is None where a file names none. `sighted`: the rater saw the judge's verdict. `by_model`: a model wrote
    it. `conversation_id` is set where a file names no turn.
    """

    turn_id: str
    value: LabelValue
    metric: str | None = None
    rater: str = ""
    by_model: bool = False
    sighted: bool = False
    conversation_id: str = ""


class LabelError(ValueError):
    """What is no label, or no file of labels; the message says where, and what is expected."""

    exit_code = 2
    """Exit code of a command that ends with this error: bad usage or input."""


_WORDS = {
    **dict.fromkeys(("pass", "passed", "yes", "true", "good"), True),
    **dict.fromkeys(("fail", "failed", "no", "false", "bad"), False),
}


def label_value(given: Any) -> LabelValue:
    """`pass` or `fail`, a grade, or the name of a label. Raises LabelError for anything else."""
    if isinstance(given, bool):
        return given
    if not isinstance(given, str | int | float) or not str(given).strip():
        raise LabelError(f"label: expected pass, fail, a grade or a label's name, got {given!r:.80}")
    text = str(given).strip()
    try:
        grade = float(text)
    except ValueError:
        return _WORDS.get(text.lower(), text)
    if not math.isfinite(grade):
        raise LabelError(f"label: expected a finite grade, got {text!r:.80}")
    return grade


def label_passes(value: LabelValue, evaluator: EvaluatorBase) -> bool:
    """Whether a label passes by the evaluator's threshold or good label. Raises LabelError for one it does not have."""
    if isinstance(value, bool):
        return value
    low, high = evaluator.scale
    expected = f"pass, fail, or a grade from {low:g} to {high:g}"
    if isinstance(value, str):
        labels = evaluator.labels if isinstance(evaluator, LabelledEvaluator) else ()
        if value in labels and isinstance(evaluator, LabelledEvaluator):
            return value == evaluator.good_label
        raise LabelError(
            f"{value!r:.80} is no label of {evaluator.metric}; expected {' or '.join(labels) if labels else expected}"
        )
    if not low <= value <= high or evaluator.threshold is None:
        raise LabelError(f"{value:g} is no grade of {evaluator.metric}; expected {expected}")
    return value >= evaluator.threshold


_Text = Annotated[str, AfterValidator(str.strip)]


class _Row(BaseModel):
    """A line of a file of labels; other columns are ignored. `conversation_id`, in place of `turn_id`, names a whole
    conversation."""

    turn_id: _Text = ""
    conversation_id: _Text = ""
    label: Annotated[bool | float | str, BeforeValidator(label_value)] = Field(default="", validate_default=True)
    evaluator: _Text = ""
    who: _Text = ""
    by: Annotated[Literal["person", "model"], BeforeValidator(lambda text: str(text).strip().lower())] = "person"

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not (self.turn_id or self.conversation_id):
            raise ValueError("turn_id, or conversation_id: it is missing")
        return self

    def as_label(self) -> Label:
        return Label(
            self.turn_id,
            self.label,
            self.evaluator or None,
            self.who[:MAX_RATER],
            self.by == "model",
            conversation_id="" if self.turn_id else self.conversation_id,
        )


def read_labels(data: bytes, name: str) -> list[Label]:
    """The labels of a CSV file with a head, or of JSON Lines (`name` ends with .jsonl or .json).

    The file is UTF-8, with or without a byte order mark. Cells are texts: a formula is nothing but a
    text. Raises LabelError, which names the line.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LabelError(f"{name}: it is not UTF-8: save it in this encoding") from None
    rows = _json_rows(text) if name.lower().endswith((".jsonl", ".json", ".ndjson")) else _csv_rows(text)
    labels = []
    try:
        for line, row in rows:
            try:
                labels.append(_Row.model_validate(row).as_label())
            except ValidationError as error:
                first = error.errors()[0]
                where = "".join(f"{part}: " for part in first["loc"][:1])
                why = first["msg"].removeprefix("Value error, ").removeprefix("label: ")
                raise LabelError(f"line {line}: {where}{why}") from None
    except LabelError as error:
        raise LabelError(f"{name}: {error}") from None
    if not labels:
        raise LabelError(f"{name}: it has no labels")
    return labels


def _csv_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)  # spreadsheets write semicolons where a comma is the decimal sign
    reader = csv.DictReader(io.StringIO(text.replace("\0", "")), delimiter=delimiter)
    reader.fieldnames = names = [(name or "").strip().lower() for name in reader.fieldnames or ()]
    if "label" not in names or not {"turn_id", "conversation_id"}.intersection(names):
        raise LabelError(
            f"the first line must name the columns {', '.join(_Row.model_fields)}; label, and turn_id or"
            " conversation_id, are required"
        )
    try:
        for row in reader:
            yield reader.line_num, {key: value for key, value in row.items() if key and value}
    except csv.Error as error:
        raise LabelError(f"line {reader.line_num}: it is no CSV: {error}") from None


def _json_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise LabelError(f"line {number}: expected a JSON object")
        yield number, {key: value for key, value in row.items() if value is not None}


def label_of(annotation: Mapping[str, Any]) -> Label | None:
    """The label in an annotation of a result (as in a turn): its `label`, or, where it assesses the verdict of the
    judge as right or wrong, that verdict or the contrary. None for any other."""
    metric, passed = annotation.get("evaluator"), annotation.get("passed")
    if metric is None:
        return None
    value: LabelValue
    if (given := annotation.get("label")) is not None:
        value = label_value(given)
    elif annotation.get("assessment") is not None and passed is not None:
        value = passed if annotation["assessment"] == "right" else not passed
    else:
        return None
    by_model = annotation.get("by") == "model"
    return Label(annotation["turn_id"], value, metric, annotation.get("who") or "", by_model, sighted=given is None)


@dataclass(frozen=True, slots=True)
class JudgeVerdict:
    """The judge's verdict on a labelled turn or conversation."""

    passed: bool
    score: float
    label: str | None = None
    model: str = ""
    prompt: str = ""

    def agrees(self, other: JudgeVerdict) -> bool:
        return (self.passed, self.label) == (other.passed, other.label)


@dataclass(slots=True)
class Consistency:
    """How often the judge gave the same verdict when it was asked the same twice, past the cache, and with its choices
    in the opposite order."""

    same: list[bool] = field(default_factory=list)
    swapped: list[bool] = field(default_factory=list)
    unanswered: int = 0
    """Turns on which it was asked, and did not answer both times."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "twice": proportion(sum(self.same), len(self.same)).to_dict(),
            "order_swapped": proportion(sum(self.swapped), len(self.swapped)).to_dict() if self.swapped else None,
            "unanswered": self.unanswered,
        }


@dataclass(slots=True)
class Labels:
    """The labels of one metric, by turn; those of conversations by the first turn."""

    people: dict[str, dict[str, LabelValue]] = field(default_factory=dict)
    excluded: Counter[str] = field(default_factory=Counter)
    sighted: int = 0

    @classmethod
    def of(cls, labels: Iterable[Label]) -> Labels:
        """Those of people. A rater who contradicts their own label of a turn has given none."""
        found = cls()
        by_model = grouped((one.by_model, one) for one in labels)
        if of_models := by_model.get(True):
            found.excluded["labels that a model wrote"] = len(of_models)
        given = grouped(((one.turn_id, one.rater), one) for one in by_model.get(False, ()))
        for (turn_id, rater), own in given.items():
            if len({(type(one.value), one.value) for one in own}) > 1:
                found.excluded["contradictory labels of one rater"] += 1
                continue
            found.people.setdefault(turn_id, {})[rater] = own[0].value
            found.sighted += all(one.sighted for one in own)
        return found


def calibration(
    evaluator: JudgeableEvaluator,
    labels: Labels,
    verdicts: Mapping[str, JudgeVerdict],
    consistency: Consistency,
    at: str,
    scope: Scope = "turn",
) -> dict[str, Any]:
    """The calibration, in its JSON form. Turns without a verdict do not count; `labels.excluded` says why.

    Nor do labels that the evaluator does not have. `at` is the time, RFC 3339. With the scope `conversation`, labels
    and verdicts are of conversations, each by its first turn; so are what the JSON form calls turns.
    """
    excluded = Counter(labels.excluded)
    of_people, foreign = _fitting(labels.people, verdicts, evaluator)
    if foreign:
        excluded["labels that the evaluator does not have"] = foreign
    pairs: dict[str, tuple[bool, JudgeVerdict]] = {}
    for turn_id, given in of_people.items():
        of_each = [label_passes(value, evaluator) for value in given.values()]
        majority = sum(of_each) * 2 - len(of_each)
        if majority == 0:
            excluded[f"{scope}s on which the raters are divided"] += 1
        else:
            pairs[turn_id] = majority > 0, verdicts[turn_id]
    judged = [(passes, verdict.passed) for passes, verdict in pairs.values()]
    confusion = Confusion.of(judged)
    people = [of_people[turn_id] for turn_id in pairs]
    several = any(len(given) > 1 for given in people)
    apart = [
        {"turn_id": turn_id, "people": passes, "judge": said.passed, "score": said.score, "label": said.label}
        for turn_id, (passes, said) in pairs.items()
        if passes is not said.passed
    ]
    some = next(iter(verdicts.values()), JudgeVerdict(False, 0.0))
    return {
        "metric": evaluator.metric,
        "evaluator": evaluator.name,
        "scope": scope,
        "key": evaluator.judge_key,
        "model": some.model,
        "prompt": some.prompt,
        "threshold": evaluator.threshold,
        "at": at,
        "labelled_turns": len(pairs),
        "labels": sum(map(len, people)),
        "raters": sorted({rater for given in people for rater in given}),
        "sighted_labels": labels.sighted,
        "enough": len(pairs) >= MIN_LABELS,
        "consistency": consistency.to_dict(),
        "confusion": asdict(confusion),
        **{name: found.to_dict() for name, found in confusion.shares().items()},
        "kappa": _kappa(judged).to_dict(),
        "raters_alpha": _between_raters(people, evaluator) if several else None,
        "excluded": dict(sorted(excluded.items())),
        "disagreements": apart[:MAX_DISAGREEMENTS],
        "disagreement_count": len(apart),
    }


def _fitting(
    labels: Mapping[str, Mapping[str, LabelValue]], verdicts: Mapping[str, JudgeVerdict], evaluator: EvaluatorBase
) -> tuple[dict[str, dict[str, LabelValue]], int]:
    """The labels of turns with a verdict that the evaluator has, and the number of the others of these turns."""
    fitting: dict[str, dict[str, LabelValue]] = {}
    others = 0
    for turn_id in filter(verdicts.__contains__, labels):
        for rater, value in labels[turn_id].items():
            try:
                label_passes(value, evaluator)
            except LabelError:
                others += 1
            else:
                fitting.setdefault(turn_id, {})[rater] = value
    return fitting, others


def _kappa(judged: Sequence[tuple[bool, bool]]) -> Estimate:
    if len({passes for passes, _ in judged}) == 1:
        return Estimate(None, None, len(judged), "all labels are of one class")
    return cohen_kappa(judged)


def _between_raters(people: Sequence[Mapping[str, LabelValue]], evaluator: EvaluatorBase) -> dict[str, Any]:
    """Alpha of the raters: ordinal where all labels are grades, else nominal over pass and fail."""
    ordinal = all(isinstance(value, float) for given in people for value in given.values())
    level: Level = "ordinal" if ordinal else "nominal"
    ratings = [
        [float(value if ordinal else label_passes(value, evaluator)) for value in given.values()] for given in people
    ]
    return {"level": level, **krippendorff_alpha(ratings, level).to_dict()}


def calibration_name(made: Mapping[str, Any]) -> str:
    """Under which a store keeps it: a later one of the same judge replaces it."""
    of = "" if scope_of(made) == "turn" else f" of {scope_of(made)}s"
    return f"{made['key']} {made['metric']}{of}"


def scope_of(made: Mapping[str, Any]) -> Scope:
    """Of a calibration."""
    return "conversation" if made.get("scope") == "conversation" else "turn"  # earlier versions had none


def standing(
    result: Mapping[str, Any], made: Iterable[Mapping[str, Any]], scope: Scope = "turn"
) -> dict[str, Any] | None:
    """What a result (JSON form) says about its judge by these calibrations; None if no judge was asked.

    `{status, text}`; with the numbers of the calibration where one holds. `scope` is what the result is of.
    """
    judge = result["details"].get("judge")
    if result["score"] is None or not isinstance(judge, Mapping) or "prompt" not in judge:
        return None
    of_metric = sorted((one for one in made if one["metric"] == result["evaluator"]), key=lambda one: str(one["at"]))
    same = [one for one in of_metric if one["key"] == judge.get("key") and scope_of(one) == scope]
    if not of_metric:
        return {"status": "not calibrated", "text": "not calibrated"}
    found = (same or of_metric)[-1]
    if scope_of(found) != scope:
        return {"status": "stale", "text": f"calibration is stale: it was of {scope_of(found)}s, and is of {scope}s"}
    if changed := _changed(found, result, judge, same=bool(same)):
        return {"status": "stale", "text": f"calibration is stale: {changed}"}
    if not found["enough"]:
        has = counted(found["labelled_turns"], f"labelled {scope}")
        return {"status": "too few labels", "text": f"not calibrated: {has}, {MIN_LABELS} are needed"}
    numbers = {name: found[name] for name in ("agreement", "confusion")}
    return {"status": "calibrated", "text": agreement_text(found["agreement"]), **numbers}


def _changed(found: Mapping[str, Any], result: Mapping[str, Any], judge: Mapping[str, Any], *, same: bool) -> str:
    """What differs between a calibration and a result; empty if nothing does."""
    if found["threshold"] != result["threshold"]:
        return f"the threshold was {_number(found['threshold'])}, and is {_number(result['threshold'])}"
    for name in ("model", "prompt"):
        if found[name] != judge.get(name) and judge.get(name):
            return printable(f"the {name} was {found[name]}, and is {judge[name]}")
    return "" if same else "the prompt, criteria, parameters or place of the judge changed"


def _number(value: float | None) -> str:
    return "not set" if value is None else f"{value:g}"


def agreement_text(agreement: Mapping[str, Any]) -> str:
    """`agrees with people in 84 %, 76 to 90, n = 120`."""
    return f"agrees with people in {percent(agreement)}, n = {agreement['n']:,}"


def corrected(results: Mapping[str, Sequence[bool]], confusion: Mapping[str, int]) -> dict[str, Any]:
    """The pass rate that people would have found (JSON form), from the verdicts of the judge on each case."""
    shares = [fmean(passed) for passed in results.values()]
    return corrected_rate(shares, Confusion(**confusion), [len(passed) for passed in results.values()]).to_dict()


def corrected_text(found: Mapping[str, Any]) -> str:
    """`corrected pass rate 71 %, 60 to 82`, or why it is refused."""
    if found["value"] is None:
        return f"no corrected pass rate: {found['undefined']}"
    return f"corrected pass rate {percent(found)}"


def percent(found: Mapping[str, Any]) -> str:
    """`71 %, 60 to 82`, of an estimate that is defined."""
    low, high = found["interval"]
    return f"{found['value'] * 100:.0f} %, {low * 100:.0f} to {high * 100:.0f}"
