"""Every statistic of agreement against a library of statistics, and what holds for any ratings."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from statistics import NormalDist
from typing import Any

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.later import Later
from tool_call_evaluators.judged.behavior import AgentBehaviorFailure
from tool_call_evaluators.judged.quality import Helpfulness
from tool_call_evaluators.outcomes.agreement import (
    Confusion,
    Estimate,
    cohen_kappa,
    corrected_rate,
    krippendorff_alpha,
    proportion,
)
from tool_call_evaluators.outcomes.calibration import (
    MIN_LABELS,
    Consistency,
    JudgeVerdict,
    Label,
    LabelError,
    Labels,
    calibration,
    label_of,
    label_passes,
    label_value,
    read_labels,
    standing,
)
from tool_call_evaluators.report.text_forms import calibration_lines

stats = Later("scipy.stats")
rating = Later("statsmodels.stats.inter_rater")

EXACT = 1e-9
Z = NormalDist().inv_cdf(0.975)
VERDICTS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)
ITEMS = st.lists(st.lists(st.integers(1, 5), min_size=0, max_size=4), min_size=2, max_size=30)


@given(st.lists(st.booleans(), min_size=1))
def test_a_share_has_wilsons_interval(found):
    expected = stats.binomtest(sum(found), len(found)).proportion_ci(method="wilson")
    assert proportion(sum(found), len(found)).interval == pytest.approx(tuple(expected), abs=EXACT)


def test_a_rate_of_nothing_is_undefined():
    assert proportion(0, 0) == Estimate(None, None, 0, "there are no such items")
    assert cohen_kappa([]).value is krippendorff_alpha([], "nominal").value is None


@settings(max_examples=20)
@given(VERDICTS)
def test_kappa_as_statsmodels(pairs):
    found = cohen_kappa(pairs)
    if len({rating for pair in pairs for rating in pair}) == 1:
        assert (found.value, found.interval, found.undefined) == (None, None, "all ratings are the same")
        return
    table = np.zeros((2, 2))
    for one, other in pairs:
        table[int(one), int(other)] += 1
    with np.errstate(divide="ignore", invalid="ignore"):
        assert found.value == pytest.approx(rating.cohens_kappa(table).kappa, abs=EXACT)


@pytest.mark.parametrize("level", ["nominal", "ordinal"])
@settings(max_examples=10)
@given(items=ITEMS)
def test_alpha_as_krippendorff(level, items):
    found = krippendorff_alpha(items, level)
    counted = [item for item in items if len(item) > 1]
    assert found.n == len(counted)
    if len({rating for item in counted for rating in item}) < 2:
        assert found.value is None
        assert found.undefined
        return
    matrix = np.array([item + [np.nan] * (4 - len(item)) for item in items], dtype=float).T
    theirs = krippendorff.alpha(reliability_data=matrix, level_of_measurement=level)
    assert found.value == pytest.approx(theirs, abs=EXACT)
    assert found.interval is None or found.interval[0] <= found.value <= found.interval[1]


def test_a_corrected_rate_by_known_figures():
    """Of 200 turns the judge passes 60 %; it finds 90 % of 100 good and 80 % of 50 bad ones: (.6 + .8 - 1) / .7."""
    found = corrected_rate([1.0] * 120 + [0.0] * 80, Confusion(90, 100, 40, 50))
    theta = 0.4 / 0.7
    variance = 0.24 / 200 + (1 - theta) ** 2 * 0.16 / 50 + theta**2 * 0.09 / 100
    width = Z * math.sqrt(variance) / 0.7
    assert found.value == pytest.approx(theta, abs=EXACT)
    assert found.interval == pytest.approx((theta - width, theta + width), abs=EXACT)


def test_repetitions_of_a_case_are_no_more_evidence_than_the_case():
    judge = Confusion(90, 100, 80, 100)
    cases = [1.0] * 8 + [0.0] * 2
    repeated = corrected_rate(cases, judge, [5] * 10)
    alone = corrected_rate(cases, judge)
    assert repeated.value == alone.value
    assert repeated.interval[1] - repeated.interval[0] >= alone.interval[1] - alone.interval[0]


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (Confusion(5, 10, 5, 10), "chance"),  # a coin
        (Confusion(2, 10, 3, 10), "chance"),  # worse than one
        (Confusion(7, 10, 7, 10), "chance"),  # the interval touches
        (Confusion(60, 60, 0, 0), "no label says fails"),
        (Confusion(0, 0, 60, 60), "no label says passes"),
    ],
)
def test_a_correction_that_means_nothing_is_refused(judge, why):
    found = corrected_rate([1.0, 0.0] * 40, judge)
    assert (found.value, found.interval) == (None, None)
    assert why in found.undefined


@given(VERDICTS, st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=50))
def test_a_corrected_rate_stays_a_rate(pairs, shares):
    found = corrected_rate(shares, Confusion.of(pairs))
    assert (found.value is None) == bool(found.undefined)
    if found.value is not None:
        assert 0 <= found.interval[0] <= found.value <= found.interval[1] <= 1


TEXT = "turn_id,label,evaluator,who,by\nt1,pass,helpfulness,Jörg,person\nt2,2.5,,bo,model\n"
LABELS = [Label("t1", True, "helpfulness", "Jörg"), Label("t2", 2.5, None, "bo", by_model=True)]


LINES = """{"turn_id": "t1", "label": true, "evaluator": "helpfulness", "who": "Jörg"}

{"turn_id": "t2", "label": 2.5, "who": "bo", "by": "model", "evaluator": null, "more": [1]}
"""
OF_A_CONVERSATION = Label("", True, conversation_id="c1")


@pytest.mark.parametrize(
    ("name", "text", "labels"),
    [
        *(
            ("l.csv", start + TEXT.replace(",", separator).replace("\n", end), LABELS)
            for start in ("", "\ufeff")
            for separator in ",;\t"
            for end in ("\n", "\r\n")
        ),
        (
            "l.csv",
            'note,Label , TURN_ID\n"a, b\nc",FAIL,"t1"\n,"no failure",t2\n',
            [Label("t1", False), Label("t2", "no failure")],
        ),
        (
            "l.csv",
            "conversation_id,turn_id,label\nc1,,pass\nc1,t1,fail\n",
            [OF_A_CONVERSATION, Label("t1", False)],
        ),
        ("l.jsonl", '{"conversation_id": "c1", "label": "pass"}', [OF_A_CONVERSATION]),
        ("l.JSONL", LINES, LABELS),
    ],
)
def test_labels_are_read(name: str, text: str, labels: list[Label]) -> None:
    assert read_labels(text.encode(), name) == labels


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("l.csv", b"", "l.csv: the first line must name the columns"),
        ("l.csv", b"turn_id,score\nt,1\n", "label, and turn_id or conversation_id, are required"),
        ("l.csv", b"turn_id,label\n", "it has no labels"),
        ("l.csv", b"turn_id,label\nt1,pass\n,pass\n", "l.csv: line 3: turn_id, or conversation_id: it is missing"),
        ("l.csv", b"turn_id,label\nt1,\n", "line 2: label: expected pass, fail"),
        ("l.csv", b"turn_id,label\nt1,nan\n", "line 2: label: expected a finite grade"),
        ("l.csv", b"turn_id,label,by\nt1,pass,cat\n", "line 2: by: Input should be 'person' or 'model'"),
        ("l.csv", b"turn_id,label\n" + b"x" * 200_000 + b",pass\n", "it is no CSV"),
        ("l.jsonl", b'{"label": "pass"}\n', "line 1: turn_id, or conversation_id: it is missing"),
        ("l.jsonl", b'{"turn_id": 1, "label": "pass"}', "line 1: turn_id: Input should be a valid string"),
        ("l.jsonl", b'{"turn_id": "t", "label": ["pass"]}', "line 1: label: expected pass, fail"),
        ("l.jsonl", b"[" * 100_000, "line 1: expected a JSON object"),
        ("l.jsonl", b"\xff\xfe", "l.jsonl: it is not UTF-8"),
    ],
)
def test_what_is_no_label_is_named_by_its_line(name: str, data: bytes, problem: str) -> None:
    with pytest.raises(LabelError) as raised:
        read_labels(data, name)
    assert problem in str(raised.value)


@given(st.binary(max_size=200), st.sampled_from(["l.csv", "l.jsonl"]))
def test_any_bytes_are_labels_or_refused(data: bytes, name: str) -> None:
    with suppress(LabelError):
        assert read_labels(b"turn_id,label\n" + data if name == "l.csv" else data, name)


GRADED, LABELLED = Helpfulness(threshold=4), AgentBehaviorFailure()


@pytest.mark.parametrize(
    ("value", "evaluator", "passes"),
    [
        *(("pass", GRADED, True), ("no", GRADED, False), (4, GRADED, True), ("3.9", GRADED, False)),
        *(("no failure", LABELLED, True), ("repetition", LABELLED, False), (True, LABELLED, True)),
    ],
)
def test_a_label_passes_by_threshold_or_good_label(value, evaluator, passes) -> None:
    assert label_passes(label_value(value), evaluator) is passes


@pytest.mark.parametrize(("value", "evaluator"), [(0.5, GRADED), ("fine", GRADED), ("fine", LABELLED), (7.0, LABELLED)])
def test_a_label_that_the_evaluator_does_not_have_is_refused(value, evaluator) -> None:
    with pytest.raises(LabelError, match=r"is no (grade|label) of"):
        label_passes(value, evaluator)


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"label": 4.0, "by": "model"}, Label("t", 4.0, "helpfulness", "ann", by_model=True)),
        ({"assessment": "wrong"}, Label("t", False, "helpfulness", "ann", sighted=True)),
        ({"assessment": "wrong", "passed": False}, Label("t", True, "helpfulness", "ann", sighted=True)),
        ({"assessment": "right", "passed": None}, None),  # it was skipped, or errored
        ({"assessment": "right", "evaluator": None}, None),  # it is of the turn
    ],
)
def test_annotations_of_results_are_labels(fields: dict[str, Any], label: Label | None) -> None:
    of_ann = {"turn_id": "t", "assessment": None, "evaluator": "helpfulness", "who": "ann", "passed": True}
    assert label_of({**of_ann, **fields}) == label


def made_of(pairs: list[tuple[bool, bool]], **options: Any) -> dict[str, Any]:
    """The calibration of these verdicts of people and the judge."""
    labels = Labels.of(Label(f"t{number}", people) for number, (people, _) in enumerate(pairs))
    verdicts = {
        f"t{n}": JudgeVerdict(judge, 4.0 if judge else 2.0, None, "m", "p@1") for n, (_, judge) in enumerate(pairs)
    }
    return calibration(Helpfulness(judge={"model": "m"}, **options), labels, verdicts, Consistency(), "2026")


def scored(made: dict[str, Any], **judge: Any) -> dict[str, Any]:
    details = {"judge": {"model": "m", "prompt": "p@1", "key": made["key"], **judge}}
    return {"evaluator": made["metric"], "score": 4.0, "threshold": 3.0, "details": details}


def test_a_calibration_is_json_and_says_so_in_words() -> None:
    made = made_of([(True, True)] * 40 + [(False, False)] * 15 + [(True, False)] * 5)
    assert json.loads(json.dumps(made)) == made
    assert calibration_lines(made)[0] == "agrees with people in 92 %, 82 to 96, n = 60"
    assert standing(scored(made), [made])["text"] == "agrees with people in 92 %, 82 to 96, n = 60"


def test_labels_of_one_class_leave_kappa_and_a_rate_undefined() -> None:
    lines = calibration_lines(made_of([(True, True)] * 50 + [(True, False)] * 10))
    assert "no label says that a turn fails, so TNR is unknown" in lines
    assert "Cohen's kappa undefined (all labels are of one class), at a base rate of 100 %, 94 to 100" in lines


@settings(max_examples=20)
@given(st.integers(0, 120))
def test_there_is_no_claim_below_fifty(n: int) -> None:
    made = made_of([(number % 3 > 0, True) for number in range(n)])
    said = standing(scored(made), [made] if n else [])
    assert said["status"] == ("calibrated" if n >= MIN_LABELS else "too few labels" if n else "not calibrated")
    assert ("agreement" in said) == (n >= MIN_LABELS)
    assert calibration_lines(made)[0].startswith("agrees" if n >= MIN_LABELS else "no claim")


def test_what_differs_is_stale_and_what_no_judge_said_says_nothing() -> None:
    made = made_of([(True, True)] * 60)
    for result, said in (
        (scored(made, key="other"), "the prompt, criteria, parameters or place of the judge changed"),
        (scored(made, model="n"), "the model was m, and is n"),
        (scored(made, prompt="p@2", key="other"), "the prompt was p@1, and is p@2"),
        ({**scored(made), "threshold": None}, "the threshold was 3, and is not set"),
    ):
        assert standing(result, [made]) == {"status": "stale", "text": f"calibration is stale: {said}"}
    later = {**made, "key": "other", "at": "2027"}
    assert standing(scored(made), [later, made])["status"] == "calibrated"  # the one of this judge
    assert standing({**scored(made), "score": None}, [made]) is None
    assert standing({**scored(made), "details": {"judge": {"requests": 1}}}, [made]) is None  # an errored one
    assert standing({**scored(made), "details": {"judge": "me"}}, [made]) is None


def test_labels_that_the_evaluator_does_not_have_are_excluded() -> None:
    given = [("a", "banana"), ("b", 4.0), ("c", 9.0), ("d", True)]
    labels = Labels.of(Label("t", value, rater=rater) for rater, value in given)
    made = calibration(Helpfulness(judge={"model": "m"}), labels, {"t": JudgeVerdict(True, 4.0)}, Consistency(), "2026")
    assert (made["raters"], made["labels"]) == (["b", "d"], 2)
    assert made["excluded"] == {"labels that the evaluator does not have": 2}
