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


def turn(results=(), **facts):
    return Outcome("case a", "case a", list(results), "a", "t1", **facts)


def checks(verdict):
    return [(check["metric"], check["gate"], check["text"], check["passed"]) for check in verdict.to_dict()["gates"]]


KIND, RUDE = EvalResult("tone", label="kind"), EvalResult("tone", label="rude", reason="seen")
ERRORED, SKIPPED = EvalResult.errored("judge", "Timeout: 30 s"), EvalResult.skipped("tool_error", "unknown")
NOT_GIVEN = EvalResult.skipped("tool_error", "not given: expected_response")
UNSCALED = EvalResult("helpfulness", 4.0, scale=(1.0, 5.0))
HALF = outcomes([bad(score=0.4)], [good(score=0.8)])
TWO = [*outcomes([good()], [good()]), *outcomes([bad(score=0.2)], [good(score=0.6)], conversation="b")]
SILENT, SEEN = turn([good()], captured=False), turn([good()], captured=True)
NOISY = [turn([good()], findings=[Severity.WARNING, Severity.ERROR]), turn([good()], findings=[Severity.WARNING])]
EVERYTHING = {"missing_turn", "errored", "unmeasured"}


def on(metric, **limits):
    return {"gates": {metric: Gate(**limits)}}


@pytest.mark.parametrize(
    ("run", "options", "reasons"),
    [
        (outcomes([good()], [good()]), {"metrics": ["tool_error"]}, []),
        (outcomes([]), {}, ["unmeasured: nothing was measured: no evaluator is configured"]),
        (outcomes([]), {"tolerate": {"unmeasured"}}, []),
        (outcomes([good()], [bad()]), {}, ["failed: case a, turn 2: tool_error failed: no result"]),
        (outcomes([good()], None), {}, ["missing_turn: case a, turn 2: not executed"]),
        (outcomes([good(), ERRORED], [good("judge")]), {}, ["errored: case a, turn 1: judge errored: Timeout: 30 s"]),
        (outcomes([ERRORED]), {"metrics": ["judge"]}, ["errored", "unmeasured"]),
        (outcomes([good()]), {"metrics": ["judge"]}, ["unmeasured: judge: no evaluator produced a score"]),
        (outcomes([good()]), on("judge", mean=0.0), ["unmeasured: judge: no evaluator produced a score"]),
        (outcomes([SKIPPED], [SKIPPED]), {}, ["unmeasured: tool_error: every result was skipped (unknown)"]),
        (outcomes([NOT_GIVEN], [SKIPPED]), {}, ["unmeasured: tool_error: every result was skipped (unknown)"]),
        (outcomes([SKIPPED], [good()]), {}, []),
        ([], {}, ["nothing_ran"]),
        ([], {"metrics": ["tool_error"]}, ["nothing_ran", "unmeasured"]),
        (outcomes([good(), ERRORED], None), {}, ["missing_turn", "errored", "unmeasured"]),
        (outcomes([good(), ERRORED], None), {"tolerate": EVERYTHING}, []),
        (outcomes([bad()]), {"tolerate": {"errored"}}, ["failed"]),
        (HALF, on("tool_error", mean=0.6), []),
        (HALF, on("tool_error", mean=0.7), ["below_mean: tool_error: mean 0.60 is below 0.70"]),
        (TWO, on("tool_error", conversation_mean=0.4), []),
        (TWO, on("tool_error", conversation_mean=0.5), ["below_conversation_mean: b: tool_error"]),
        (TWO, on("tool_error", pass_rate=0.75), []),
        (TWO, on("tool_error", pass_rate=0.76), ["below_pass_rate"]),
        (outcomes([UNSCALED]), on("helpfulness", pass_rate=0.5), ["unmeasured"]),
        (outcomes([UNSCALED]), on("helpfulness", mean=3.5), []),
        pytest.param(outcomes([KIND], [RUDE]), {"metrics": ["tone"]}, [], marks=pytest.mark.statement(95)),
        pytest.param(
            outcomes([KIND], [RUDE]),
            on("tone", forbid=("rude",)),
            ["forbidden_label: case a, turn 2: tone is 'rude': seen"],
            marks=pytest.mark.statement(84, 109),
        ),
        (outcomes([KIND]), on("tone", forbid=("rude",)), []),
        *((outcomes([KIND]), on("tone", **{limit: 0.5}), ["unmeasured"]) for limit in ("mean", "conversation_mean")),
        (outcomes([KIND]), on("tone", pass_rate=0.5), ["unmeasured"]),
        ([turn([good()], failure="the task failed")], {}, ["failed_turn: case a: the task failed"]),
        ([turn([good()], failure="the task failed")], {"tolerate": {"failed_turn"}}, []),
        (
            [
                *(turn([good()], unseen=why) for why in ("no card", "no card", "cut")),
                turn([good()], unseen="no answer", failure="HTTP status 500"),
            ],
            {},
            [
                "calls_unseen: 3 of 4 turns and conversations were not scored for tool calls: no card (2 times); cut",
                "failed_turn: case a: HTTP status 500",
            ],
        ),
        ([SILENT, SILENT], {}, ["nothing_captured"]),
        ([SILENT, SILENT], {"tolerate": {"nothing_captured"}}, []),
        ([SILENT, SEEN], {}, []),
        (
            outcomes([SKIPPED]),
            {"run": RunGates(pass_rate=0.5)},
            ["unmeasured: pass rate: no conversation was scored", "unmeasured: tool_error: every result"],
        ),
        ([SILENT, SEEN], {"run": RunGates(captured=0.5)}, []),
        ([SILENT, SEEN], {"run": RunGates(captured=0.6)}, ["below_captured"]),
        ([turn([good()])], {"run": RunGates(captured=0.1)}, ["unmeasured"]),
        (NOISY, {"run": RunGates(findings={Severity.WARNING: 2, Severity.ERROR: 1})}, []),
        (
            NOISY,
            {"run": RunGates(findings={Severity.WARNING: 1, Severity.ERROR: 0})},
            ["too_many_findings: 2 findings of severity warning, the maximum is 1", "too_many_findings"],
        ),
        (TWO, {"run": RunGates(pass_rate=0.5)}, []),
        (TWO, {"run": RunGates(pass_rate=0.6)}, ["below_pass_rate"]),
        (TWO, {"run": RunGates(pass_rate=0.5), **on("tool_error", mean=0.9)}, ["below_mean"]),
        (
            outcomes([good()], None, [ERRORED]),
            {"run": RunGates(pass_rate=0.0)},
            ["missing_turn", "errored", "unmeasured"],
        ),
    ],
)
def test_what_speaks_against_a_run(run, options, reasons):
    found = gate(run, **options).reasons
    assert len(found) == len(reasons)
    for reason, beginning in zip(found, reasons, strict=True):
        assert f"{reason.code}: {reason.message}".startswith(beginning)


FOUND = Outcome("b", "b", [good(), bad("tone", label="rude")], captured=True, findings=[Severity.WARNING])


@pytest.mark.parametrize(
    ("run", "options", "expected"),
    [
        # those of the run come first
        (
            [Outcome("a", "a", [bad()], captured=False), FOUND],
            {
                "gates": {
                    "tool_error": Gate(mean=0.4, conversation_mean=0.5, pass_rate=0.75),
                    "tone": Gate(forbid=("rude",)),
                },
                "run": RunGates(findings={Severity.ERROR: 0, Severity.WARNING: 0}, captured=0.5, pass_rate=0.5),
            },
            [
                (None, "findings", "0", True),
                (None, "findings", "1", False),
                (None, "captured", "0.50", True),
                (None, "pass_rate", "0.00", False),
                ("tool_error", "mean", "0.50", True),
                ("tool_error", "conversation_mean", "0.00", False),
                ("tool_error", "pass_rate", "0.50", False),
                ("tone", "forbid", "1", False),
            ],
        ),
        (
            [*outcomes([bad()]), *outcomes([SKIPPED], [SKIPPED], conversation="b")],
            {"run": RunGates(pass_rate=0.5)},
            [(None, "pass_rate", "0.00", False)],
        ),
        (outcomes([SKIPPED], [good()]), {"run": RunGates(pass_rate=1.0)}, [(None, "pass_rate", "1.00", True)]),
        (outcomes([SKIPPED]), {"run": RunGates(pass_rate=0.5)}, [(None, "pass_rate", "not measured", False)]),
        (
            [Outcome("a", "a", [SKIPPED], unseen="the tool calls are unknown")],
            {"run": RunGates(pass_rate=0.5), "allow_no_capture": True},
            [(None, "pass_rate", "not measured", None)],
        ),
        *(
            (
                outcomes([good()]),
                {**on("tone", mean=0.5, forbid=("rude",)), "tolerate": tolerate},
                [("tone", "mean", "not measured", met), ("tone", "forbid", "not measured", met)],
            )
            for tolerate, met in ((set(), False), ({"unmeasured"}, None))
        ),
        *(
            (outcomes([good(score=score)]), on("tool_error", mean=0.9), [("tool_error", "mean", text, met)])
            for score, text, met in ((0.8999, "0.8999", False), (0.9, "0.90", True), (0.904, "0.90", True))
        ),
    ],
)
def test_each_gate_shows_what_was_reached(run, options, expected):
    assert checks(gate(run, **options)) == expected


def test_what_cannot_be_tolerated_is_refused():
    with pytest.raises(ValueError, match="cannot tolerate failed; accepted are missing_turn"):
        gate([], tolerate={"failed"})


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
    none_expected = get_evaluator("tool_trajectory").evaluate(replace(silent, expected_tool_calls=[]))
    assert gate(outcomes(results), tolerate={"vacuous"}).passed
    assert gate(outcomes([*results, none_expected])).passed
    assert [reason.code for reason in gate(outcomes(results, None)).reasons] == ["missing_turn"]


def test_the_summary_counts_each_metric():
    verdict = gate(
        outcomes([good(score=0.5)], [bad(score=0.1)], [EvalResult.skipped("tool_error", "x")]), metrics=["judge"]
    )
    assert json.loads(json.dumps(verdict.to_dict()))["metrics"] == [
        {
            "metric": "judge",
            "measured": 0,
            "mean": None,
            "passed": 0,
            "failed": 0,
            "skipped": 0,
            "errored": 0,
            "scale": [0, 1],
        },
        {
            "metric": "tool_error",
            "measured": 2,
            "mean": 0.3,
            "passed": 1,
            "failed": 1,
            "skipped": 1,
            "errored": 0,
            "scale": [0, 1],
        },
    ]


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
