"""What changed between two runs: calls, scores with their uncertainty, failures; and how it is shown."""

from __future__ import annotations

import json
from math import comb

import pytest
from support.turn_samples import call, finding, result, turn
from tool_call_evaluators.outcomes.comparison import compare
from tool_call_evaluators.report import comparison_json, comparison_markdown, comparison_text
from tool_call_evaluators.report.compared import MAX_CASES


def one(case: str, score: float = 1.0, calls=(), number: int = 0, metric: str = "tool_error", **fields):
    """The only turn of a conversation."""
    return turn(f"{case}-{number}", calls=calls, evaluations=[result(metric, score)], case=case, start=number, **fields)


def statuses(comparison) -> dict[str, str]:
    return {case.case: case.status for case in comparison.cases}


def test_two_equal_runs():
    run = [one("a", calls=[call("f", x=1)]), one("b", 0.0)]
    comparison = compare(run, run)
    assert statuses(comparison) == {"a": "same", "b": "same"}
    assert not comparison.regressed
    assert [(score.metric, score.delta) for score in comparison.scores] == [("tool_error", 0.0)]
    assert compare([], []).cases == ()
    assert not compare([], []).regressed


def test_new_and_fixed_failures():
    comparison = compare([one("a"), one("b", 0.0), one("c")], [one("a", 0.0), one("b"), one("c")])
    assert statuses(comparison) == {"a": "newly_failing", "b": "fixed", "c": "same"}
    a, b, _ = comparison.cases
    assert (a.failures, a.fixes, a.passed) == (("tool_error",), (), ((1, 1), (0, 1)))
    assert (b.failures, b.fixes) == ((), ("tool_error",))
    assert (a.regressed, b.regressed, comparison.regressed) == (False, False, False)
    assert comparison.counts == {"newly_failing": 1, "fixed": 1, "same": 1}


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


def test_what_did_not_run_is_a_failure():
    whole = [one("a", conversation="c"), {**one("a", number=1, conversation="c"), "user_text": "Thanks"}]
    (case,) = compare(whole, whole[:1]).cases
    assert (case.status, case.failures) == ("newly_failing", ("missing_turn",))
    (case,) = compare(whole, [whole[0], {**whole[1], "state": "TASK_STATE_FAILED"}]).cases
    assert (case.status, case.failures) == ("newly_failing", ("failed_turn",))


def said(*texts: str, conversation: str = "c", case: str | None = "a"):
    """A conversation that went well, as far as it went."""
    return [
        turn(
            f"{conversation}-{n}", text, [], [result("tool_error", 1.0)], case=case, conversation=conversation, start=n
        )
        for n, text in enumerate(texts)
    ]


def test_a_conversation_that_broke_off_is_a_failure_without_a_suite_too():
    whole, broken = said("Hi", "Cancel it", "Yes"), said("Hi", "Cancel it")
    (case,) = compare(whole, broken).cases
    assert (case.status, case.failures, case.passed) == ("newly_failing", ("missing_turn",), ((1, 1), (0, 1)))
    assert statuses(compare(broken, whole)) == {"a": "fixed"}
    assert statuses(compare(broken, broken)) == {"a": "same"}
    again = [*whole, *said("Hi", conversation="d")]
    assert compare(whole, again).cases[0].passed == ((1, 1), (1, 2))


def test_a_user_who_says_other_things_breaks_nothing_off():
    assert not compare(said("Hi", "Cancel it", "Yes"), said("Hi", "No")).regressed
    assert not compare(said("Hi", "And?", case=None), said("Hi", case=None)).regressed


def test_cases_that_only_one_run_has():
    comparison = compare([one("a"), one("b")], [one("b"), one("c")])
    assert statuses(comparison) == {"a": "gone", "b": "same", "c": "new"}
    assert comparison.regressed
    assert not compare([one("b")], [one("b"), one("c")]).regressed


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


def test_arguments_that_look_like_placeholders_are_data():
    odd = [one("a", calls=[call("f", x={"$any": True})])]
    assert statuses(compare(odd, odd)) == {"a": "same"}
    assert statuses(compare(odd, [one("a", calls=[call("f", x=1)])])) == {"a": "changed"}


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


def test_conversations_without_a_case_are_told_apart_by_what_was_said_first():
    before = [turn("1", "Hello", evaluations=[result("tool_error", 1.0)])]
    after = [turn("2", "Hello ", evaluations=[result("tool_error", 0.0)])]
    assert statuses(compare(before, after)) == {"“Hello”": "newly_failing"}


def runs(scores, case: str = "a", threshold: float | None = 0.5):
    return [
        turn(f"{case}{n}", evaluations=[result("judge", score, threshold=threshold)], case=case, start=n)
        for n, score in enumerate(scores)
    ]


def test_scores_of_repetitions_come_with_their_uncertainty():
    (case,) = compare(runs([0.9, 0.8, 0.9, 0.95]), runs([0.6, 0.7, 0.6, 0.65])).cases
    (score,) = case.scores
    assert score.delta == pytest.approx(-0.25)
    low, high = score.interval
    assert low < -0.25 < high < 0
    assert score.p_value == pytest.approx(1 / comb(8, 4))
    assert score.dropped
    assert (case.status, case.regressed) == ("worse", True)
    (case,) = compare(runs([0.9] * 2), runs([0.6] * 2)).cases
    assert not case.scores[0].dropped  # one of 6 arrangements
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


def test_a_case_is_worse_by_itself_where_its_repetitions_alone_show_it():
    flaky = runs([1.0, 0.0, 1.0, 0.0, 1.0, 0.0])
    assert compare(flaky, runs([0.0, 0.0, 1.0, 1.0, 0.0, 0.0])).cases[0].status == "changed"
    assert compare(runs([0.0] * 6), flaky).cases[0].status == "changed"
    assert compare(flaky, runs([1.0] * 6)).cases[0].status == "fixed"
    assert compare(runs([1.0, 0.0]), runs([0.0])).cases[0].status == "changed"
    (case,) = compare(runs([1.0] * 9 + [0.0]), runs([0.0] * 9 + [1.0])).cases
    assert (case.status, case.regressed) == ("worse", True)
    (case,) = compare(runs([1.0] * 10), runs([0.0] * 10)).cases
    assert (case.status, case.regressed) == ("newly_failing", False), "one observation of each run"
    (case,) = compare(runs([1.0] * 10), runs([1.0] * 9 + [0.0])).cases
    assert (case.status, case.regressed) == ("newly_failing", False)


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


def test_the_same_runs_always_compare_alike():
    before, after = runs([0.1, 0.9, 0.4, 0.7]), runs([0.3, 0.2, 0.8, 0.6])
    assert compare(before, after) == compare(before, after)


def test_the_forms():
    comparison = compare([one("a"), one("b|`*")], [one("a", 0.0)], names=("monday", "<b>tuesday</b>"))
    data = json.loads(comparison_json(comparison))
    assert (data["before"], data["regressed"], data["counts"]) == ("monday", True, {"newly_failing": 1, "gone": 1})
    assert [case["case"] for case in data["cases"]] == ["a", "b|`*"]
    text = comparison_text(comparison)
    assert text.startswith("monday → <b>tuesday</b>: worse (1 missing, 1 newly failing)\n")
    assert "newly failing: a (1 of 1 passed, now 0 of 1 passed)\n  now failing: tool_error\n" in text
    assert "missing: b|`* (1 of 1 passed, now missing)" in text
    markdown = comparison_markdown(comparison)
    assert markdown.startswith("## ❌ monday → &lt;b&gt;tuesday&lt;/b&gt;: worse")
    assert "**missing: b\\|\\`\\*** (1 of 1 passed, now missing)" in markdown


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
