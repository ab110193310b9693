"""The verdict on a run: fails closed, names every reason."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from a2a_tool_capture import Severity
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, EvalResult, Status, get_evaluator
from tool_call_evaluators.gates import Gate, Outcome, RunGates
from tool_call_evaluators.verdict import gate


def good(metric="tool_error", score=1.0, **fields):
    return EvalResult(metric, score, passed=True, threshold=0.5, **fields)


def bad(metric="tool_error", score=0.0, **fields):
    return EvalResult(metric, score, passed=False, threshold=0.5, reason="no result", **fields)


def outcomes(*results, conversation="case a"):
    """One turn for each list of results (None: the turn never came)."""
    return [
        Outcome(f"{conversation}, turn {number}", conversation, turn) for number, turn in enumerate(results, start=1)
    ]


def codes(verdict):
    return [reason.code for reason in verdict.reasons]


def test_a_run_in_which_everything_passed():
    verdict = gate(outcomes([good()], [good()]), metrics=["tool_error"])
    assert verdict.passed
    assert verdict.reasons == verdict.tolerated == ()


def test_a_run_for_which_no_evaluator_was_asked_does_not_pass_by_silence():
    unasked = gate(outcomes([]))
    assert codes(unasked) == ["unmeasured"]
    assert unasked.reasons[0].message == "nothing was measured: no evaluator is configured"
    assert gate(outcomes([]), tolerate={"unmeasured"}).passed


def test_scores_of_turns_without_tool_calls_alone_do_not_pass():
    silent = EvalCase(tool_calls=[], tools=[{"name": "refund"}], response_text="I am sorry.")
    evaluators = [get_evaluator(name) for name in ("tool_error", "tool_efficiency", "tool_call_validity")]
    results = [evaluator.evaluate(silent) for evaluator in evaluators]
    assert [(result.score, result.decisive) for result in results] == [(1.0, False)] * 3
    verdict = gate(outcomes(results, results), gates={"tool_error": Gate(mean=0.9)})
    assert [(reason.code, reason.message) for reason in verdict.reasons] == [
        (
            "vacuous",
            "nothing was measured: no turn made a tool call, so that tool_error, tool_efficiency, tool_call_validity "
            "had none to judge; expect tool calls, or score the answers",
        )
    ]
    assert gate(outcomes(results), tolerate={"vacuous"}).passed
    assert gate(outcomes(results, [good()])).passed
    none_expected = replace(silent, expected_tool_calls=[])
    assert gate(outcomes([*results, get_evaluator("tool_trajectory").evaluate(none_expected)])).passed
    assert codes(gate(outcomes(results, None))) == ["missing_turn"]


def test_a_failed_result_is_named_with_its_place():
    verdict = gate(outcomes([good()], [bad()]))
    assert not verdict.passed
    (reason,) = verdict.reasons
    assert (reason.code, reason.metric, reason.where) == ("failed", "tool_error", "case a, turn 2")
    assert reason.message == "case a, turn 2: tool_error failed: no result"


def test_a_turn_that_never_came_counts_against_the_run():
    verdict = gate(outcomes([good()], None))
    assert codes(verdict) == ["missing_turn"]
    assert verdict.reasons[0].message == "case a, turn 2: not executed (no matching turn)"


def test_an_evaluator_that_errored_counts_against_the_run():
    verdict = gate(outcomes([good(), EvalResult.errored("judge", "Timeout: 30 s")], [good(), good("judge")]))
    assert codes(verdict) == ["errored"]
    assert verdict.reasons[0].message == "case a, turn 1: judge errored: Timeout: 30 s"


def test_a_metric_that_always_errored_is_unmeasured_too():
    verdict = gate(outcomes([EvalResult.errored("judge", "no answer")]), metrics=["judge"])
    assert codes(verdict) == ["errored", "unmeasured"]


@pytest.mark.parametrize("how", [{"metrics": ["judge"]}, {"gates": {"judge": Gate(mean=0.0)}}])
def test_a_metric_nobody_produced_counts_against_the_run(how):
    verdict = gate(outcomes([good()]), **how)
    assert codes(verdict) == ["unmeasured"]
    assert verdict.reasons[0].message == "judge: no evaluator produced a score"


def test_a_metric_that_was_skipped_everywhere_says_why():
    skipped = EvalResult.skipped("tool_trajectory", "not given: expected_tool_calls")
    verdict = gate(outcomes([skipped], [skipped]))
    assert codes(verdict) == ["unmeasured"]
    assert verdict.reasons[0].message == ("tool_trajectory: every result was skipped (not given: expected_tool_calls)")
    assert gate(outcomes([skipped], [good("tool_trajectory")])).passed


def test_a_run_with_nothing_in_it_does_not_pass():
    assert codes(gate([])) == ["nothing_ran"]
    assert codes(gate([], metrics=["tool_error"])) == ["nothing_ran", "unmeasured"]


def test_only_what_is_tolerated_by_name_does_not_count():
    run = outcomes([good(), EvalResult.errored("judge", "no answer")], None)
    assert codes(gate(run)) == ["missing_turn", "errored", "unmeasured"]
    verdict = gate(run, tolerate={"missing_turn", "errored", "unmeasured"})
    assert verdict.passed
    assert [reason.code for reason in verdict.tolerated] == ["missing_turn", "errored", "unmeasured"]
    assert codes(gate(outcomes([bad()]), tolerate={"errored"})) == ["failed"]
    with pytest.raises(ValueError, match="cannot tolerate failed; accepted are missing_turn"):
        gate(run, tolerate={"failed"})


def test_a_gate_on_the_mean_takes_the_place_of_every_result():
    run = outcomes([bad(score=0.4)], [good(score=0.8)])
    assert gate(run, gates={"tool_error": Gate(mean=0.6)}).passed
    verdict = gate(run, gates={"tool_error": Gate(mean=0.7)})
    assert codes(verdict) == ["below_mean"]
    assert verdict.reasons[0].message == "tool_error: mean 0.60 is below 0.70"


def test_a_gate_on_every_conversation():
    run = [
        *outcomes([good(score=1.0)], [good(score=1.0)], conversation="case a"),
        *outcomes([bad(score=0.2)], [good(score=0.6)], conversation="case b"),
    ]
    assert gate(run, gates={"tool_error": Gate(conversation_mean=0.4)}).passed
    verdict = gate(run, gates={"tool_error": Gate(conversation_mean=0.5)})
    assert [(reason.code, reason.where) for reason in verdict.reasons] == [("below_conversation_mean", "case b")]


def test_a_gate_on_the_pass_rate():
    run = outcomes([good()], [good()], [bad()], [bad()])
    assert gate(run, gates={"tool_error": Gate(pass_rate=0.5)}).passed
    assert codes(gate(run, gates={"tool_error": Gate(pass_rate=0.51)})) == ["below_pass_rate"]


def test_a_pass_rate_without_verdicts_is_unmeasured():
    run = outcomes([EvalResult("helpfulness", 4.0, scale=(1.0, 5.0))])
    assert codes(gate(run, gates={"helpfulness": Gate(pass_rate=0.5)})) == ["unmeasured"]
    assert gate(run, gates={"helpfulness": Gate(mean=3.5)}).passed


def test_forbidden_labels():
    run = outcomes(
        [EvalResult("behavior", 1.0, label="no failure")],
        [EvalResult("behavior", 0.0, label="repetition", reason="said it twice")],
    )
    assert gate(run, gates={"behavior": Gate(forbid=("false information",))}).passed
    verdict = gate(run, gates={"behavior": Gate(forbid=("false information", "repetition"))})
    assert [(reason.code, reason.where) for reason in verdict.reasons] == [("forbidden_label", "case a, turn 2")]
    assert verdict.reasons[0].message == "case a, turn 2: behavior is 'repetition': said it twice"


def labelled(label, reason="seen"):
    return EvalResult("tone", label=label, reason=reason)


@pytest.mark.statement(84, 95, 109)
def test_a_label_without_a_score_neither_passes_nor_fails_unless_it_is_forbidden():
    planned = outcomes([labelled("kind")], [labelled("rude")])
    verdict = gate(planned, metrics=["tone"])
    assert verdict.passed
    (summary,) = verdict.metrics
    assert (summary.measured, summary.mean, summary.passed, summary.failed) == (2, None, 0, 0)
    (reason,) = gate(planned, gates={"tone": Gate(forbid=("rude",))}).reasons
    assert (reason.code, reason.where) == ("forbidden_label", "case a, turn 2")
    assert reason.message == "case a, turn 2: tone is 'rude': seen"


@pytest.mark.parametrize("limit", [{"mean": 0.5}, {"conversation_mean": 0.5}, {"pass_rate": 0.5}])
def test_a_limit_on_scores_is_not_met_by_labels(limit):
    verdict = gate(outcomes([labelled("kind")]), gates={"tone": Gate(**limit)})
    assert codes(verdict) == ["unmeasured"]


def test_the_summary_counts_each_metric():
    verdict = gate(
        outcomes([good(score=0.5)], [bad(score=0.1)], [EvalResult.skipped("tool_error", "x")]), metrics=["judge"]
    )
    summary = {item.metric: item for item in verdict.metrics}
    assert (summary["judge"].measured, summary["judge"].mean) == (0, None)
    counted = summary["tool_error"]
    assert (counted.measured, counted.passed, counted.failed, counted.skipped, counted.errored) == (2, 1, 1, 1, 0)
    assert counted.mean == pytest.approx(0.3)
    assert json.loads(json.dumps(verdict.to_dict()))["passed"] is False


results = st.lists(
    st.sampled_from([good(), bad(), EvalResult.skipped("tool_error", "x"), EvalResult.errored("tool_error", "y")]),
    max_size=3,
)


@given(st.lists(results | st.none(), max_size=5))
def test_a_run_passes_only_where_all_that_was_planned_was_measured_and_passed(turns):
    verdict = gate(outcomes(*turns), metrics=["tool_error"])
    flat = [result for turn in turns for result in turn or ()]
    everything_passed = all(result.status in (Status.PASSED, Status.SKIPPED) for result in flat)
    something_measured = any(result.score is not None for result in flat)
    assert verdict.passed is (None not in turns and everything_passed and something_measured)


def turn(results=(), **facts):
    return Outcome("case a", "case a", list(results), "a", "t1", **facts)


def test_reasons_name_the_case_and_the_turn():
    (failed,) = gate([turn([bad()])]).reasons
    assert (failed.case_id, failed.turn_id) == ("a", "t1")


def test_a_turn_that_broke_off_counts_against_the_run_whatever_it_scored():
    verdict = gate([turn([good()], failure="the task failed")])
    assert codes(verdict) == ["failed_turn"]
    assert verdict.reasons[0].message == "case a: the task failed"
    assert gate([turn([good()], failure="the task failed")], tolerate={"failed_turn"}).passed


def test_an_agent_that_never_called_a_tool_does_not_pass_by_silence():
    silent = [turn([good()], captured=False), turn([good()], captured=False)]
    verdict = gate(silent)
    assert codes(verdict) == ["nothing_captured"]
    assert gate(silent, tolerate={"nothing_captured"}).passed
    assert gate([*silent, turn([good()], captured=True)]).passed
    assert gate([turn([good()])]).passed


def test_the_least_share_of_turns_with_captured_calls():
    half = [turn([good()], captured=False), turn([good()], captured=True)]
    assert gate(half, run=RunGates(captured=0.5)).passed
    assert codes(gate(half, run=RunGates(captured=0.6))) == ["below_captured"]
    assert codes(gate([turn([good()])], run=RunGates(captured=0.1))) == ["unmeasured"]


def test_the_most_findings_of_a_severity():
    noisy = [turn([good()], findings=[Severity.WARNING, Severity.ERROR]), turn([good()], findings=[Severity.WARNING])]
    assert gate(noisy, run=RunGates(findings={Severity.WARNING: 2, Severity.ERROR: 1})).passed
    verdict = gate(noisy, run=RunGates(findings={Severity.WARNING: 1, Severity.ERROR: 0}))
    assert codes(verdict) == ["too_many_findings", "too_many_findings"]
    assert verdict.reasons[0].message == "2 findings of severity warning, the maximum is 1"


def test_a_pass_rate_over_conversations_takes_the_place_of_every_result():
    results = [outcomes([good()], [good()], conversation="a"), outcomes([bad()], [good()], conversation="b")]
    run = [outcome for conversation in results for outcome in conversation]
    assert gate(run, run=RunGates(pass_rate=0.5)).passed
    assert codes(gate(run, run=RunGates(pass_rate=0.6))) == ["below_pass_rate"]
    assert codes(gate(run, gates={"tool_error": Gate(mean=0.9)}, run=RunGates(pass_rate=0.5))) == ["below_mean"]


def test_under_a_pass_rate_what_did_not_run_still_counts():
    run = outcomes([good()], None, [EvalResult.errored("judge", "no answer")])
    assert codes(gate(run, run=RunGates(pass_rate=0.0))) == ["missing_turn", "errored", "unmeasured"]
    assert codes(gate(run, run=RunGates(pass_rate=1.0)))[0] == "below_pass_rate"


def test_a_conversation_in_which_nothing_was_scored_has_no_part_in_the_pass_rate():
    skipped = EvalResult.skipped("tool_error", "the tool calls are unknown")
    bad_and_unscored = [*outcomes([bad()], conversation="a"), *outcomes([skipped], [skipped], conversation="b")]
    verdict = gate(bad_and_unscored, run=RunGates(pass_rate=0.5))
    assert checks(verdict) == [(None, "pass_rate", "0.00", False)]
    assert checks(gate(outcomes([skipped], [good()]), run=RunGates(pass_rate=1.0)))[0][2] == "1.00"


def test_a_pass_rate_is_not_measured_where_nothing_was_scored():
    skipped = EvalResult.skipped("tool_error", "the tool calls are unknown")
    verdict = gate(outcomes([skipped]), run=RunGates(pass_rate=0.5))
    assert checks(verdict) == [(None, "pass_rate", "not measured", False)]
    assert "pass rate: no conversation was scored" in [reason.message for reason in verdict.reasons]
    unseen = [Outcome("a", "a", [skipped], unseen="the tool calls are unknown")]
    assert not gate(unseen, run=RunGates(pass_rate=0.5)).passed
    allowed = gate(unseen, run=RunGates(pass_rate=0.5), allow_no_capture=True)
    assert checks(allowed) == [(None, "pass_rate", "not measured", None)]


def checks(verdict):
    return [(check["metric"], check["gate"], check["text"], check["passed"]) for check in verdict.to_dict()["gates"]]


def test_each_gate_is_listed_with_its_actual_value_those_of_the_run_first():
    found = Outcome("b", "b", [good(), bad("tone", label="rude")], captured=True, findings=[Severity.WARNING])
    verdict = gate(
        [Outcome("a", "a", [bad()], captured=False), found],
        gates={"tool_error": Gate(mean=0.4, conversation_mean=0.5, pass_rate=0.75), "tone": Gate(forbid=("rude",))},
        run=RunGates(findings={Severity.ERROR: 0, Severity.WARNING: 0}, captured=0.5, pass_rate=0.5),
    )
    assert checks(verdict) == [
        (None, "findings", "0", True),
        (None, "findings", "1", False),
        (None, "captured", "0.50", True),
        (None, "pass_rate", "0.00", False),
        ("tool_error", "mean", "0.50", True),
        ("tool_error", "conversation_mean", "0.00", False),
        ("tool_error", "pass_rate", "0.50", False),
        ("tone", "forbid", "1", False),
    ]
    assert [check.label for check in verdict.gates][:3] == [
        "findings of severity error ≤ 0",
        "findings of severity warning ≤ 0",
        "tool calls captured where expected ≥ 0.50",
    ]
    json.dumps(verdict.to_dict())


def test_a_gate_on_what_nothing_measured_is_not_met_unless_that_is_tolerated():
    gates = {"tone": Gate(mean=0.5, forbid=("rude",))}
    assert checks(gate(outcomes([good()]), gates=gates)) == [
        ("tone", "mean", "not measured", False),
        ("tone", "forbid", "not measured", False),
    ]
    assert [check[3] for check in checks(gate(outcomes([good()]), gates=gates, tolerate={"unmeasured"}))] == [
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("score", "text", "met"), [(0.8999, "0.8999", False), (0.9, "0.90", True), (0.904, "0.90", True)]
)
def test_a_rounded_value_never_contradicts_the_mark(score, text, met):
    assert checks(gate(outcomes([good(score=score)]), gates={"tool_error": Gate(mean=0.9)})) == [
        ("tool_error", "mean", text, met)
    ]
