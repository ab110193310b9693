"""Labels in files of any kind, and what a calibration says about scores."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_call_evaluators.judged.behavior import AgentBehaviorFailure
from tool_call_evaluators.judged.quality import Helpfulness
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

TEXT = "turn_id,label,evaluator,who,by\nt1,pass,helpfulness,Jörg,person\nt2,2.5,,bo,model\n"
LABELS = [Label("t1", True, "helpfulness", "Jörg"), Label("t2", 2.5, None, "bo", by_model=True)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_files_of_spreadsheets_are_read(encoding: str, separator: str, end: str) -> None:
    text = TEXT.replace(",", separator).replace("\n", end)
    assert read_labels(text.encode(encoding), "labels.csv") == LABELS


def test_columns_may_come_in_any_order_and_case_with_others_and_quotes() -> None:
    text = 'note,Label , TURN_ID\n"a, b\nc",FAIL,"t1"\n,"no failure",t2\n'
    assert read_labels(text.encode(), "l.csv") == [Label("t1", False), Label("t2", "no failure")]


def test_a_conversation_is_named_where_no_turn_is() -> None:
    text = b"conversation_id,turn_id,label\nc1,,pass\nc1,t1,fail\n"
    assert read_labels(text, "l.csv") == [Label("", True, conversation_id="c1"), Label("t1", False)]
    assert read_labels(b'{"conversation_id": "c1", "label": "pass"}', "l.jsonl") == [
        Label("", True, conversation_id="c1")
    ]


def test_json_lines_are_read() -> None:
    lines = [
        {"turn_id": "t1", "label": True, "evaluator": "helpfulness", "who": "Jörg"},
        {"turn_id": "t2", "label": 2.5, "who": "bo", "by": "model", "evaluator": None, "more": [1]},
    ]
    text = "\n\n".join(map(json.dumps, lines)) + "\n"
    assert read_labels(text.encode(), "labels.JSONL") == LABELS


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


def test_a_label_passes_by_threshold_or_good_label() -> None:
    graded, labelled = Helpfulness(threshold=4), AgentBehaviorFailure()
    assert [label_passes(label_value(one), graded) for one in ("pass", "no", 4, "3.9")] == [True, False, True, False]
    assert [label_passes(one, labelled) for one in ("no failure", "repetition", True)] == [True, False, True]
    for value, evaluator in ((0.5, graded), ("fine", graded), ("fine", labelled), (7.0, labelled)):
        with pytest.raises(LabelError, match=r"is no (grade|label) of"):
            label_passes(value, evaluator)


def annotation(**fields: Any) -> dict[str, Any]:
    return {"turn_id": "t", "assessment": None, "evaluator": "helpfulness", "who": "ann", "passed": True, **fields}


def test_annotations_of_results_are_labels() -> None:
    assert label_of(annotation(label=4.0, by="model")) == Label("t", 4.0, "helpfulness", "ann", by_model=True)
    assert label_of(annotation(assessment="wrong")) == Label("t", False, "helpfulness", "ann", sighted=True)
    assert label_of(annotation(assessment="wrong", passed=False)).value is True
    assert label_of(annotation(assessment="right", passed=None)) is None  # it was skipped, or errored
    assert label_of(annotation(assessment="right", evaluator=None)) is None  # it is of the turn


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
