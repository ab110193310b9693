"""What changed between two runs: calls, scores with their uncertainty, failures; and how it is shown."""

from __future__ import annotations

import json
from collections import Counter
from math import comb

import pytest
from support.turn_samples import call, finding, result, turn
from tool_call_evaluators.outcomes.comparison import Baseline, compare
from tool_call_evaluators.outcomes.regression import EVIDENCE
from tool_call_evaluators.report import comparison_json, comparison_markdown, comparison_text
from tool_call_evaluators.report.compared import MAX_CASES


def one(case: str, score: float = 1.0, calls=(), number: int = 0, metric: str = "tool_error", **fields):
    """The only turn of a conversation."""
    return turn(f"{case}-{number}", calls=calls, evaluations=[result(metric, score)], case=case, start=number, **fields)


def statuses(comparison) -> dict[str, str]:
    return {case.case: case.status for case in comparison.cases}


def said(*texts: str, conversation: str = "c", case: str | None = "a"):
    """A conversation that went well, as far as it went."""
    return [
        turn(
            f"{conversation}-{n}", text, [], [result("tool_error", 1.0)], case=case, conversation=conversation, start=n
        )
        for n, text in enumerate(texts)
    ]


def runs(scores, case: str = "a", threshold: float | None = 0.5):
    return [
        turn(f"{case}{n}", evaluations=[result("judge", score, threshold=threshold)], case=case, start=n)
        for n, score in enumerate(scores)
    ]


EQUAL = [one("a", calls=[call("f", x=1)]), one("b", 0.0)]
ODD = [one("a", calls=[call("f", x={"$any": True})])]
FLAKY = runs([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
WHOLE = said("Hi", "Cancel it", "Yes")
BARE = [turn(n, case=n) for n in "0123456789"]


@pytest.mark.parametrize(
    ("before", "after", "found", "regressed"),
    [
        ([], [], {}, False),
        (EQUAL, EQUAL, {"a": "same", "b": "same"}, False),
        ([one("a"), one("b", 0.0)], [one("a", 0.0), one("b")], {"a": "newly_failing", "b": "fixed"}, False),
        ([one("a"), one("b")], [one("b"), one("c")], {"a": "gone", "b": "same", "c": "new"}, True),
        ([one("b")], [one("b"), one("c")], {"b": "same", "c": "new"}, False),
        ([one("a", 0.0)], [one("c", metric="other")], {"a": "gone", "c": "new"}, False),
        (ODD, ODD, {"a": "same"}, False),
        (ODD, [one("a", calls=[call("f", x=1)])], {"a": "changed"}, False),
        (
            [turn("1", "Hello", evaluations=[result("tool_error", 1.0)])],
            [turn("2", "Hello ", evaluations=[result("tool_error", 0.0)])],
            {"“Hello”": "newly_failing"},
            False,
        ),
        (WHOLE, said("Hi", "No"), {"a": "same"}, False),
        (WHOLE, WHOLE[:2], {"a": "newly_failing"}, False),
        (WHOLE[:2], WHOLE, {"a": "fixed"}, False),
        (WHOLE[:2], WHOLE[:2], {"a": "same"}, False),
        (
            BARE,
            [one | {"state": "TASK_STATE_FAILED"} for one in BARE],
            dict.fromkeys("0123456789", "newly_failing"),
            True,
        ),
        (said("Hi", "And?", case=None), said("Hi", case=None), {"“Hi”": "same"}, False),
        (FLAKY, runs([0.0, 0.0, 1.0, 1.0, 0.0, 0.0]), {"a": "changed"}, False),
        (runs([0.0] * 6), FLAKY, {"a": "changed"}, False),
        (FLAKY, runs([1.0] * 6), {"a": "fixed"}, False),
        (runs([1.0, 0.0]), runs([0.0]), {"a": "changed"}, False),
        (runs([1.0] * 9 + [0.0]), runs([0.0] * 9 + [1.0]), {"a": "worse"}, True),
        (runs([1.0] * 10), runs([0.0] * 10), {"a": "newly_failing"}, False),  # one observation of each run
        (runs([1.0] * 10), runs([1.0] * 9 + [0.0]), {"a": "newly_failing"}, False),
    ],
)
def test_what_became_of_each_case(before, after, found, regressed):
    comparison = compare(before, after)
    assert statuses(comparison) == found
    assert comparison.regressed is regressed
    assert comparison == compare(before, after)


@pytest.mark.parametrize(("attempts", "status"), [(EVIDENCE - 1, "new"), (EVIDENCE, "newly_failing")])
def test_a_case_counts_once_the_runs_of_a_version_have_enough_attempts(attempts, status):
    before = [{**item, "run": str(number)} for number, item in enumerate(runs([1.0] * attempts))]
    comparison = compare(before, runs([0.0]), baseline=Baseline("1.0", ("0", "1", "2")))
    assert statuses(comparison) == {"a": status}


@pytest.mark.parametrize(
    ("before", "after", "failures", "fixes"),
    [
        ([one("a")], [one("a", 0.0)], ("tool_error",), ()),
        ([one("a", 0.0)], [one("a")], (), ("tool_error",)),
        (WHOLE, WHOLE[:2], ("missing_turn",), ()),
        (WHOLE, [*WHOLE[:2], {**WHOLE[2], "state": "TASK_STATE_FAILED"}], ("failed_turn",), ()),
    ],
)
def test_what_fails_now_and_what_is_repaired(before, after, failures, fixes):
    """What did not run is a failure."""
    (case,) = compare(before, after).cases
    assert (case.failures, case.fixes) == (failures, fixes)
    assert case.passed == (((1, 1), (0, 1)) if failures else ((0, 1), (1, 1)))


def test_calls_that_are_not_visible_in_a_run_are_not_gone():
    unseen = {"findings": [finding("no_capture")]}
    (case,) = compare([one("a", calls=[call("f")])], [one("a", **unseen)]).cases
    assert case.turns == ()
    (case,) = compare([one("a", **unseen)], [one("a", calls=[call("f")])]).cases
    assert case.turns == ()
    once = [one("a", **unseen), one("a", calls=[call("g")], number=1)]
    (case,) = compare([one("a", calls=[call("f")])], once).cases
    assert [(change.kind, turn.shares) for turn in case.turns for change in turn.changes] == [
        ("removed", ((1, 1), (1, 1))),
        ("added", ((1, 1), (1, 1))),
    ]


def test_what_changed_in_the_calls():
    before = [one("a", calls=[call("look", id="A"), call("open"), call("pay", amount=1), call("log"), call("drop")])]
    after = [
        one(
            "a",
            calls=[
                call("log"),
                call("look", id="A"),
                call("open"),
                call("pay", amount=2, currency="EUR"),
                call("add", n=1),
            ],
        )
    ]
    comparison = compare(before, after)
    (case,) = comparison.cases
    assert case.status == "changed"
    assert not comparison.regressed
    (changed,) = case.turns
    assert sorted(change.kind for change in changed.changes) == ["added", "changed", "moved", "removed"]
    text = comparison_text(comparison)
    for line in (
        "changed: a (1 of 1 passed, now 1 of 1 passed)",
        "  turn 1: ↕ log(): call 4 before, call 1 after",
        "  turn 1: ≠ pay: amount: 1 → 2",
        '  turn 1: ≠ pay: currency is new ("EUR")',
        "  turn 1: − drop()",
        "  turn 1: + add(n=1)",
    ):
        assert line in text.splitlines(), text
    (shown,) = json.loads(comparison_json(comparison))["cases"][0]["turns"]
    pays = [[change["before"], change["after"]] for change in shown["changes"] if change["kind"] == "changed"]
    assert [[call["arguments"] for call in pair] for pair in pays] == [
        [{"amount": 1}, {"amount": 2, "currency": "EUR"}]
    ]


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ({}, {"qty": 3}, []),
        ({"qty": 3}, {}, []),
        ({"qty": 3}, {"qty": 3}, []),
        ({"qty": 3}, {"qty": 5}, ["changed"]),
    ],
)
def test_a_default_that_a_report_leaves_out_is_no_change(before, after, kinds):
    """As in a run, where an expected call with or without it is made."""
    sides = [
        [one("a", calls=[call("order", sku="x", **given) | {"default_arguments": ["qty"]}])]
        for given in (before, after)
    ]
    (case,) = compare(*sides).cases
    assert [change.kind for turn in case.turns for change in turn.changes] == kinds


def test_what_waits_for_approval_is_compared():
    before, after = ([one("a", approvals=[{"name": "pay", "arguments": {"sum": n}, "id": ""}])] for n in (1, 2))
    comparison = compare(before, after)
    assert statuses(comparison) == {"a": "changed"}
    assert "  turn 1: ≠ pay (waits for approval): sum: 1 → 2" in comparison_text(comparison)


def test_unknown_arguments():
    known, unknown = one("a", calls=[call("f", x=1)]), one("a", calls=[call("f")])
    unknown["tool_calls"][0]["arguments"] = None
    assert "turn 1: ≠ f: arguments are unknown now" in comparison_text(compare([known], [unknown]))


def test_with_repetitions_the_most_frequent_calls_are_compared():
    before = [one("a", calls=[call("f", x=1)], number=n) for n in range(3)]
    after = [one("a", calls=[call("f", x=2 if n else 9)], number=n) for n in range(3)]
    (case,) = compare(before, after).cases
    (changed,) = case.turns
    assert changed.after[0].arguments == {"x": 2}
    assert changed.shares == ((3, 3), (2, 3))
    assert "made by 3 of 3, now by 2 of 3" in comparison_text(compare(before, after))


def test_scores_of_repetitions_come_with_their_uncertainty():
    (case,) = compare(runs([0.9, 0.8, 0.9, 0.95]), runs([0.6, 0.7, 0.6, 0.65])).cases
    (score,) = case.scores
    assert score.delta == pytest.approx(-0.25)
    low, high = score.interval
    assert low < -0.25 < high < 0
    assert score.p_value == pytest.approx(1 / comb(8, 4))
    assert score.dropped
    assert (case.status, case.regressed) == ("worse", True)

    (case,) = compare(runs([0.9]), runs([0.6])).cases
    assert (case.scores[0].interval, case.scores[0].p_value, case.regressed) == (None, None, False)


def test_a_score_that_falls_a_little_everywhere_is_seen_over_all_cases():
    before = [item for n in range(10) for item in runs([0.9], f"c{n}")]
    after = [item for n in range(10) for item in runs([0.8], f"c{n}")]
    comparison = compare(before, after)
    assert not any(case.regressed for case in comparison.cases)
    (score,) = comparison.scores
    assert score.dropped
    assert score.p_value == pytest.approx(1 / 2**10)
    assert comparison.regressed
    assert not compare(after, before).regressed


def test_a_metric_that_one_run_did_not_measure_in_a_case():
    skipped = one("b") | {"evaluations": [result("tool_error", None)]}
    comparison = compare([one("a"), one("b")], [one("a"), skipped])
    assert statuses(comparison) == {"a": "same", "b": "changed"}
    assert "tool_error: 1.00 → –" in comparison_text(comparison)


@pytest.mark.parametrize("more", [[], [one("b")]], ids=["nowhere", "elsewhere"])
@pytest.mark.parametrize("others", [[], [result("contains", 1.0)]], ids=["alone", "among others"])
def test_a_failure_that_one_run_did_not_measure_is_neither_new_nor_repaired(others, more):
    failed, skipped = (one("a") | {"evaluations": [result("tool_error", score), *others]} for score in (0.0, None))
    for before, after in ((failed, skipped), (skipped, failed)):
        comparison = compare([before, *more], [after, *more])
        assert (comparison.cases[0].failures, comparison.cases[0].fixes) == ((), ())
        assert comparison.cases[0].status in ("unscored", "same")
        assert not comparison.fails_on(["newly-failing"])
        assert comparison.pass_rate.delta in (None, 0.0)


def test_results_of_whole_conversations_count():
    run = [one("a", conversation="c")]
    comparison = compare(run, run, conversation_results=({"c": [result("goal", 1.0)]}, {"c": [result("goal", 0.0)]}))
    assert comparison.cases[0].failures == ("goal",)


def test_the_forms():
    comparison = compare([one("a"), one("b|`*")], [one("a", 0.0)], names=("monday", "<b>tuesday</b>"))
    data = json.loads(comparison_json(comparison))
    assert (data["before"], data["regressed"], data["counts"]) == ("monday", True, {"newly_failing": 1, "gone": 1})
    assert [case["case"] for case in data["cases"]] == ["a", "b|`*"]
    for form, part in (
        (comparison_text, "monday → <b>tuesday</b>: worse (1 missing, 1 newly failing)\n"),
        (comparison_text, "newly failing: a (1 of 1 passed, now 0 of 1 passed)\n  now failing: tool_error\n"),
        (comparison_text, "missing: b|`* (1 of 1 passed, now missing)"),
        (comparison_markdown, "## ❌ monday → &lt;b&gt;tuesday&lt;/b&gt;: worse"),
        (comparison_markdown, "**missing: b\\|\\`\\*** (1 of 1 passed, now missing)"),
    ):
        assert part in form(comparison), part


def test_the_figures_say_of_which_runs_and_which_chance():
    names = ("orders-of-the-shop-20261121T082210", "tuesday")
    worse, better = ([item for n in range(8) for item in runs([score], f"c{n}")] for score in (0.9, 1.0))
    for sides, p_value in (((better, worse), "0.0039"), ((worse, better), "–")):
        text = comparison_text(compare(*sides, names=names))
        head, *rows = (line for line in text.splitlines() if line.startswith(("mean of cases", "judge ")))
        assert " ".join(head.split()[3:]) == "orders-of-t…61121T082210 tuesday change 95 % interval p of a drop"
        assert [row.split()[-1] for row in rows] == [p_value]
        assert ("unchanged agent fall at least as far" in text) is (p_value != "–")


@pytest.mark.parametrize(("scores", "note"), [([1.0, 1.0, 1.0], True), ([1.0], False), ([1.0, 0.0, 1.0], False)])
def test_attempts_that_are_alike_are_said_to_count_as_one(scores, note):
    text = comparison_text(compare(runs(scores), runs(scores)))
    assert ("1 conversation of each in both runs (attempts that are alike" in text) is note


def test_many_changes_are_not_all_told():
    before = [one(f"c{n}") for n in range(MAX_CASES + 7)]
    after = [one(f"c{n}", 0.0) for n in range(MAX_CASES + 7)]
    assert "\n… and 7 more cases.\n\nmean of cases" in comparison_text(compare(before, after))


def test_cases_with_equal_ids_of_several_agents_in_one_run_are_compared_each_with_its_own():
    def run(*agents):
        of = {"case": "a", "conversation": "c"}
        return [turn(name, evaluations=[result("goal", score)], agent_name=name, **of) for name, score in agents]

    both = compare(run(("orders", 1.0), ("refunds", 0.0)), run(("orders", 1.0), ("refunds", 1.0)))
    assert {case.case: case.status for case in both.cases} == {"orders: a": "same", "refunds: a": "fixed"}
    other = compare(run(("orders", 1.0)), run(("refunds", 0.0)))
    assert [case.case for case in other.cases] == ["a"], "one run is of another agent, with the same cases"


JUDGE = {"model": "small", "prompt": "helpfulness@1", "votes": 1}


def run(score: float | None, *others, judge=JUDGE, **fields):
    """Twenty cases, each with a judged metric and perhaps others."""
    said = result("helpfulness", score, **{"threshold": 3.0, "scale": [1.0, 5.0], "details": {"judge": judge}} | fields)
    return [turn(str(n), evaluations=[said, *others], case=f"case-{n}", start=n) for n in range(20)]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"judge": JUDGE | {"model": "large"}}, "judge model small in monday, large in tuesday"),
        (
            {"judge": JUDGE | {"prompt": "helpfulness@2"}},
            "judge prompt helpfulness@1 in monday, helpfulness@2 in tuesday",
        ),
        ({"judge": JUDGE | {"votes": 3}}, "judge votes 1 in monday, 3 in tuesday"),
        ({"version": "2"}, "evaluator version 1 in monday, 2 in tuesday"),
        ({"threshold": 4.0}, "threshold 3 in monday, 4 in tuesday"),
        ({"threshold": None}, "threshold 3 in monday, none in tuesday"),
        ({"scale": [0.0, 5.0]}, "scale 1 to 5 in monday, 0 to 5 in tuesday"),
    ],
)
def test_a_metric_that_was_measured_otherwise_is_named_and_not_judged(changed, reason):
    other = result("tool_error", 1.0)
    comparison = compare(run(5.0, other), run(1.0, other, **changed), names=("monday", "tuesday"))
    assert comparison.not_judged == {"helpfulness": reason}
    assert not comparison.regressed
    assert comparison.comparable
    assert {case.status for case in comparison.cases} == {"same"}
    assert comparison.pass_rate.delta == 0
    assert f"not compared: helpfulness: {reason}" in comparison_text(comparison)
    assert "not compared: helpfulness" in comparison_markdown(comparison)
    assert comparison.to_dict()["not_judged"] == [{"metric": "helpfulness", "reason": reason}]


FAILED = result("tool_error", 0.0)


@pytest.mark.parametrize(
    ("before", "after", "not_judged", "regressed", "failures"),
    [
        # other metrics are judged all the same
        (
            run(5.0, result("tool_error", 1.0)), run(1.0, FAILED, threshold=4.0),
            {"helpfulness": "threshold 3 in before, 4 in after"}, True, {("tool_error",)},
        ),
        (
            run(5.0), [item | {"evaluations": [FAILED]} for item in run(5.0)],
            {"helpfulness": "only before measured it", "tool_error": "only after measured it"}, False, {()},
        ),
        (run(5.0), run(5.0, FAILED), {"tool_error": "only after measured it"}, False, {()}),
    ],
)  # fmt: skip
def test_a_metric_that_is_not_comparable_fails_no_case(before, after, not_judged, regressed, failures):
    comparison = compare(before, after)
    assert (comparison.not_judged, comparison.regressed) == (not_judged, regressed)
    assert {case.failures for case in comparison.cases} == failures


def test_where_nothing_was_measured_alike_nothing_is_said_to_be_well():
    comparison = compare(run(5.0), run(1.0, version="2"))
    assert not comparison.comparable
    assert "cannot be compared" in comparison_text(comparison)
    assert comparison_markdown(comparison).startswith("## ❌")


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (run(None, status="errored", details={}), "evaluator_error"),
        (run(5.0, result("tool_error", None, label="calls_unseen")), "calls_unseen"),
        ([item | {"findings": [finding("agent_unreachable", "error")]} for item in run(5.0)], "unreachable"),
    ],
)
def test_attempts_that_show_nothing_about_the_agent_are_no_failures(after, reason):
    """A judge that is down, calls that are not visible, an agent that could not be reached: neither well nor bad."""
    comparison = compare(run(5.0, result("tool_error", 1.0)), after)
    assert not comparison.regressed
    assert not comparison.comparable
    assert comparison.fails_on(["undecided"])
    assert comparison.exclusions == ({}, {reason: 20})
    assert {(case.status, case.passed[1], case.excluded) for case in comparison.cases} == {("unscored", (0, 0), (0, 1))}
    assert "20 attempts excluded in after" in comparison_text(comparison)


def test_excluded_attempts_leave_the_others_as_they_are():
    good = run(5.0)
    some = [*run(None, status="errored", details={})[:10], *good[10:]]
    comparison = compare(good, some)
    assert comparison.comparable
    assert comparison.sensitivity.cases == 10
    assert comparison.pass_rate.after == 1.0
    assert Counter(case.status for case in comparison.cases) == {"unscored": 10, "same": 10}
