"""JUnit XML, Markdown and JSON of a run: what they say, that they agree with the verdict, that nothing breaks them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.turn_samples import call, finding, many_turns, result, turn
from tool_call_evaluators import EvalResult, load_suite, parse_suite
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report, html_report, json_report, junit_xml, markdown_summary
from tool_call_evaluators.report.figures import tool_figures
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.report.page import page_data

FIXTURES = Path(__file__).parents[1] / "fixtures"
DEMO = Path(__file__).parents[3] / "proxy/a2a_eval_proxy/features/demo/suite.yaml"
HOSTILE = "</system-out>]]>\x00\x1b[31m\ud800 <script>alert(1)</script> | `x` ![x](http://evil.example/x.png) @all\n# h"

ONE = parse_suite("suite: one\nevaluators: [tool_error]\ncases: [{id: status, turns: [{user: Where is my order?}]}]")


def report(turns, suite=ONE, **more) -> Report:
    conversations = follow(turns, suite, more.get("conversation_results"))
    return build_report("nightly", turns, run_verdict(suite, conversations).to_dict(), suite=suite, **more)


@pytest.fixture(scope="module")
def demo() -> Report:
    lines = (FIXTURES / "demo-turns.jsonl").read_text("utf-8").splitlines()
    return report([json.loads(line) for line in lines], load_suite(DEMO))


CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"skipped", "error", "failure", "flakyFailure", "rerunFailure", "system-out"},
    "flakyFailure": {"stackTrace", "system-out"},
    "rerunFailure": {"stackTrace", "system-out"},
}
ATTRIBUTES = {
    "testsuites": set(),
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time"},
    "skipped": {"message"},
    "error": {"message", "type"},
    "failure": {"message", "type"},
    "flakyFailure": {"message", "type"},
    "rerunFailure": {"message", "type"},
    "stackTrace": set(),
    "system-out": set(),
}


def checked(text: str) -> ET.Element:
    """The root of a text that has the structure of JUnit's schema as CI tools read it; the only suite in it."""
    root = ET.fromstring(text)
    for element in root.iter():
        assert set(element.keys()) <= ATTRIBUTES[element.tag], element.tag
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set()), element.tag
    (suite,) = root
    cases = suite.findall("testcase")
    assert int(suite.get("tests", "")) == len(cases)
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(kind, "")) == len(suite.findall(f"testcase/{tag}"))
    for case in cases:
        assert len([child for child in case if child.tag in ("skipped", "error", "failure")]) <= 1
        assert case.get("name")
        assert case.get("classname")
        assert float(case.get("time", "")) >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", "2026-01-01T00:00:00"))
    names = [
        (case.get("classname"), case.get("name")) for case in cases if not case.get("classname", "").endswith(".gates")
    ]
    assert len(names) == len(set(names))
    return suite


def test_junit_tells_what_did_not_run_from_what_was_not_good_enough():
    missing = checked(junit_xml(report([])))
    assert missing.find("testcase[@name='status']/error").get("type") == "missing_turn"
    broken = turn("a", case="status", state="TASK_STATE_FAILED", evaluations=[result("tool_error", 1.0)])
    assert checked(junit_xml(report([broken]))).find("testcase/error").get("type") == "failed_turn"
    bad = turn("a", case="status", evaluations=[result("tool_error", 0.0)])
    assert checked(junit_xml(report([bad]))).find("testcase/failure").get("type") == "failed"


def test_reasons_about_the_run_are_testcases_of_their_own():
    suite = parse_suite(
        "suite: one\ngates: {tool_error: 0.9, findings: {warning: 0}}\nevaluators: [tool_error]\n"
        "cases: [{id: status, turns: [{user: Where is my order?}]}]"
    )
    bad = turn("a", case="status", evaluations=[result("tool_error", 0.0)], findings=[finding("odd")])
    xml = checked(junit_xml(report([bad], suite)))
    gates = [case.get("name") for case in xml.findall("testcase[@classname='one.gates']")]
    assert gates == ["too_many_findings", "tool_error"]
    assert "the gate is not met" in xml.find("testcase[@name='status']/failure").get("message")


def test_repetitions_are_one_testcase():
    turns = [turn(f"t{n}", case="status", start=n, evaluations=[result("tool_error", float(n > 0))]) for n in range(3)]
    suite = checked(junit_xml(report(turns)))
    assert suite.get("tests") == "1"
    assert suite.find("testcase/failure").text == "status #1: tool_error failed: tool_error said so"
    assert suite.findtext("testcase/system-out").count("conversation status #") == 3


def test_attempts_that_failed_are_reruns_or_flaky():
    suite = "suite: one\nevaluators: [tool_error]\ncases: [{id: status, repeat: %s, turns: [{user: Where?}]}]"
    turns = [turn(f"t{n}", case="status", start=n, evaluations=[result("tool_error", float(n > 1))]) for n in range(4)]

    def testcase(repeat):
        return checked(junit_xml(report(turns, parse_suite(suite % repeat)))).find("testcase")

    flaky = testcase("{times: 4, pass: 2}")
    assert flaky.find("failure") is flaky.find("rerunFailure") is None
    assert [one.get("message") for one in flaky.findall("flakyFailure")] == [
        "status #1: tool_error failed: tool_error said so",
        "status #2: tool_error failed: tool_error said so",
    ]
    assert "conversation status #1" in flaky.findtext("flakyFailure/system-out")
    failed = testcase("4")
    assert failed.find("flakyFailure") is None
    assert len(failed.findall("failure")) == len(failed.findall("rerunFailure")) == 1
    assert "status #2: 2 of 4 attempts at the case passed, and 3 must pass" in testcase("{times: 4, pass: 3}").findtext(
        "failure"
    )


def test_attempts_whose_calls_are_unknown_count_in_junit_as_in_the_verdict():
    suite = parse_suite(
        "suite: one\nevaluators: [contains, tool_error]\ncases: [{id: status, repeat: {times: 3, pass: 2}, "
        "turns: [{user: Where?, expect: {response_contains: sent}}]}]"
    )
    unseen = result("tool_error", None) | {"label": "calls_unseen"}
    turns = [
        turn(f"t{n}", case="status", start=n, evaluations=[result("contains", float(n > 0)), unseen]) for n in range(3)
    ]
    verdict = run_verdict(suite, follow(turns, suite), allow_no_capture=True)
    assert verdict.passed
    made = build_report("r", turns, verdict.to_dict(), suite=suite)
    case = checked(junit_xml(made)).find("testcase")
    assert case.find("failure") is None
    assert len(case.findall("flakyFailure")) == 1


def test_every_form_shows_what_is_in_quarantine():
    suite = parse_suite(
        "suite: one\nevaluators: [tool_error]\nquarantine: {status: {reason: index down, until: 2099-01-01}}\n"
        "cases: [{id: status, turns: [{user: Where?}]}, {id: other, turns: [{user: What?}]}]"
    )
    turns = [turn("a", case="status", evaluations=[result("tool_error", 0.0)])]
    turns.append(turn("b", case="other", calls=[call("look_up")], evaluations=[result("tool_error", 1.0)]))
    made = report(turns, suite)
    sentence = (
        "status is in quarantine until 2099-01-01, and does not count: index down (0 of 1 scored attempts passed)"
    )
    assert made.passed
    assert json.loads(json_report(made))["quarantined"] == {"status": sentence}
    (quarantine,) = checked(junit_xml(made)).findall("properties/property[@name='quarantine']")
    assert quarantine.get("value") == sentence
    xml = checked(junit_xml(made))
    assert (xml.get("failures"), xml.get("skipped")) == ("0", "1")
    assert xml.find("testcase[@name='status']/skipped").get("message") == sentence
    assert "tolerated by the suite" in xml.findtext("testcase[@name='status']/system-out")
    assert "In quarantine" in markdown_summary(made)
    assert sentence in html_report(made)


def test_a_turn_that_nothing_measured_is_skipped():
    unmeasured = turn("a", conversation="free", evaluations=[result("tool_error", None)])
    assert checked(junit_xml(report([unmeasured]))).find("testcase[@name='free']/skipped") is not None


def test_nothing_breaks_the_forms():
    hostile = turn(
        "a",
        HOSTILE,
        [call(HOSTILE, x=float("nan"), y=HOSTILE, error=HOSTILE, result=HOSTILE)],
        [result("tool_error", 0.0, reason=HOSTILE)],
        case="status",
        response_text=HOSTILE,
        findings=[finding("odd", message=HOSTILE)],
    )
    made = report([hostile])
    assert checked(junit_xml(made)).find("testcase/failure") is not None
    assert json.loads(json_report(made))["passed"] is False
    summary = markdown_summary(made)
    assert "![" not in summary
    assert "<script" not in summary
    assert all(line.startswith(("#", "|", "Run ", "… ")) for line in summary.splitlines() if line)
    for text in (junit_xml(made), summary, json_report(made)):
        text.encode("utf-8")


DIRECTIONS = "\u202e\u202a\u202d\u2066\u2069\u200e\u200f\u061c"


@pytest.mark.parametrize("form", [junit_xml, markdown_summary, json_report, html_report])
def test_what_would_turn_the_text_around_is_escaped(form):
    """A name that reads `refund(gpj.exe)` may be another one (Unicode Technical Report 36, section 2.7)."""
    text = f"refund{DIRECTIONS}end"
    hostile = turn(
        "a",
        text,
        [call(text, x=text, y={text: 1}, error=text, result=text)],
        [result("tool_error", 0.0, reason=text)],
        case=text,
        response_text=text,
        findings=[finding("odd", message=text)],
    )
    made = form(report([hostile]))
    assert not set(made) & set(DIRECTIONS)
    assert "u202e" in made
    if form is html_report:  # a script reads these: JSON's escapes would be undone
        assert "\\\\u202e" in made
    if form is json_report:
        assert DIRECTIONS in json.dumps(json.loads(made), ensure_ascii=False)


@pytest.mark.parametrize("form", [junit_xml, markdown_summary, json_report])
def test_a_run_with_nothing_in_it(form):
    empty = parse_suite("suite: none")
    assert form(report([], empty))


def test_markdown_is_short_whatever_the_run():
    text = markdown_summary(
        build_report("big", list(many_turns(2_000, 2_000)), run_verdict(ONE, follow([], ONE)).to_dict())
    )
    bad = [turn(f"{n}", "x" * 5_000, [], [result("tool_error", 0.0, reason="y" * n)], case=f"c{n}") for n in range(500)]
    text += markdown_summary(report(bad))
    assert "… and 4" in text
    assert len(text) < 200_000


def test_no_address_in_the_markdown_becomes_a_link():
    text = "see HTTPS://evil.example/a, www.evil.example and WWW.evil.example"
    said = markdown_summary(report([turn("a", case="status", evaluations=[result("tool_error", 0.0, reason=text)])]))
    assert r"see HTTPS\://evil.example/a, www\.evil.example and WWW\.evil.example" in said


STATES = st.sampled_from(["TASK_STATE_COMPLETED", "TASK_STATE_FAILED", None])
RESULTS = st.lists(
    st.builds(result, st.sampled_from(["tool_error", "judge"]), st.sampled_from([0.0, 0.5, 1.0, None])), max_size=3
)
TURNS = st.lists(
    st.builds(
        lambda case, state, results, number: turn(
            f"t{number}", case=case, state=state, evaluations=results, start=number
        ),
        st.sampled_from(["status", "other", None]),
        STATES,
        RESULTS,
        st.integers(0, 10**6),
    ),
    max_size=5,
    unique_by=lambda turn: turn["turn_id"],
)


@given(TURNS, st.sampled_from(["", "gates: {tool_error: 0.5}", "gates: {pass_rate: 0.5}", "tolerate: [unmeasured]"]))
def test_junit_shows_a_problem_exactly_where_the_run_or_a_conversation_did_not_pass(turns, gates):
    suite = parse_suite(
        f"suite: one\n{gates}\nevaluators: [tool_error]\ncases: [{{id: status, turns: [{{user: Where is my order?}}]}}]"
    )
    made = report(turns, suite)
    xml = checked(junit_xml(made))
    assert (int(xml.get("failures")) + int(xml.get("errors")) == 0) == (made.passed and not made.counts["failed"])
    if any(one["passed"] is False for turn in turns for one in turn["evaluations"]):
        assert made.counts["failed"], "also where a gate tolerates it"


def test_a_label_without_a_score_is_shown_in_place_of_the_score():
    labelled = EvalResult("tone", label="rude", reason="It shouts.").to_dict()
    shown = report([turn("a", conversation="free", evaluations=[labelled])])
    assert "scored: tone rude: It shouts." in checked(junit_xml(shown)).findtext("testcase[@name='free']/system-out")
    assert shown.counts["passed"] == 1
    assert '"label": "rude"' in json_report(shown)
    assert "It shouts." in html_report(shown)


@pytest.mark.parametrize(
    ("gate", "words", "sign"),
    [
        ("tool_error: 0.5", "below threshold, tolerated by the gate", "✓"),
        ("pass_rate: 0.5", "below threshold, tolerated by the gate", "✓"),
        ("tool_error: 0.9", "below threshold, and the gate is not met", "✕"),
    ],
)
def test_every_form_says_in_the_same_words_how_a_gate_treats_a_bad_result(gate, words, sign):
    suite = parse_suite(
        f"suite: one\nevaluators: [tool_error]\ngates: {{{gate}}}\ncases: [{{id: a, turns: [{{user: x}}]}}]"
    )
    good, bad = (turn(f"{n}", "x", case="a", start=n, evaluations=[result("tool_error", float(n))]) for n in (1, 0))
    made = report([good, bad], suite)
    assert made.counts == {"passed": 1, "failed": 1, "invalid": 0, "unscored": 0}, "tolerated, but no success"
    assert made.noted_count == 1
    junit = checked(junit_xml(made))
    assert f"a #1: {words}" in junit.find("testcase/failure").get("message")
    output = junit.findtext("testcase/system-out")
    assert f"failed: tool_error 0.00 ({words}): tool_error said so" in output
    text = markdown_summary(made)
    assert "· 1 failed \\(1 of them below threshold\\) · 1 passed ·" in text
    assert f"| 1 | a \\#1: tool\\_error said so \\(tool\\_error; {words}\\) |" in text
    assert re.search(rf"\| {sign} \| .* ≥ 0\.[59]0 \| 0\.50 \|", text)
    data = json.loads(json_report(made))
    first, second = data["conversations"]
    assert (first["notes"], second["notes"]) == ([words], [])
    assert (data["counts"]["failed"], first["status"], second["status"]) == (1, "failed", "passed")
    assert first["turns"][0]["results"][0]["note"] == words
    assert data["gates"][0]["actual"] == 0.5
    page = html_report(made)
    assert f'"notes":["{words}"]' in page
    assert f'"note":"{words}"' in page
    assert re.search(rf"{sign}</span>.*?≥ 0\.[59]0</th><td[^>]*>0\.50</td>", page)


def test_a_tolerated_error_is_named_as_such():
    suite = parse_suite(
        "suite: one\nevaluators: [tool_error]\ntolerate: [errored, unmeasured]\ncases: [{id: a, turns: [{user: x}]}]"
    )
    errored = EvalResult.errored("tool_error", "down").to_dict()
    made = report([turn("t", "x", case="a", evaluations=[errored, result("other", 1.0)])], suite)
    assert made.counts["unscored"] == 1
    assert not made.noted_count, "it shows nothing about the agent"
    assert "errored: tool_error – (tolerated by the suite): down" in junit_xml(made)


def test_calls_of_other_agents_are_not_shown_as_missing():
    text = """
suite: desk
depth: all
evaluators: [tool_trajectory]
cases:
  - id: refund
    turns: [{user: Refund me, expect: {tool_calls: [{name: refund, arguments: {currency: EUR}}]}}]
"""
    passed = [turn("1", "Refund me", case="refund", evaluations=[result("tool_trajectory", 1.0)])]
    shown = report(passed, parse_suite(text))
    assert shown.verdict["passed"], shown.verdict
    (conversation,) = json.loads(json_report(shown))["conversations"]
    assert [conversation["call_changes"], conversation["turns"][0]["call_changes"]] == [None, None]
    assert tool_figures(shown) == []
    (page,) = json.loads(page_data(shown))["conversations"]
    assert not {"changes", "expected_calls"} & {*page, *page["turns"][0]}
    assert page["turns"][0]["expect_lines"] == {"tool calls of all agents": ['refund(currency: "EUR")']}
    own = report(passed, parse_suite(text.replace("depth: all", "depth: own")))
    assert "none were captured" in json_report(own)


UNSEEN = parse_suite("""
suite: unseen
evaluators: [tool_trajectory, {tool_trajectory: {name: whole, scope: conversation}}]
cases:
  - id: refund
    turns: [{user: Refund me, expect: {tool_calls: [{name: refund}]}}]
    expect: {tool_calls: [{name: refund}]}
""")


def test_calls_that_are_not_visible_are_not_shown_as_missing():
    shown = report([turn("1", "Refund me", case="refund")], UNSEEN)
    (conversation,) = json.loads(json_report(shown))["conversations"]
    assert [conversation["call_changes"], conversation["turns"][0]["call_changes"]] == [
        [{"kind": "removed", "left": 0}]
    ] * 2
    assert [(tool["name"], tool["mismatches"]) for tool in tool_figures(shown)] == [("refund", 1)]
    not_visible = finding("no_capture", message="the card declares no extension")
    shown = report([turn("1", "Refund me", case="refund", findings=[not_visible])], UNSEEN)
    (conversation,) = json.loads(json_report(shown))["conversations"]
    assert [conversation["call_changes"], conversation["turns"][0]["call_changes"]] == [None, None]
    assert tool_figures(shown) == []
    (page,) = json.loads(page_data(shown))["conversations"]
    assert "changes" not in page
    assert page["turns"][0]["unseen"]
    assert page["turns"][0]["changes"] == [["unknown", 0, None]]
    assert [call["name"] for call in page["turns"][0]["expected_calls"]] == ["refund"]


@pytest.mark.statement(56)
def test_means_of_grades_from_1_to_5_have_names():
    grades = [EvalResult("helpfulness", score, passed=score >= 3, scale=(1, 5)).to_dict() for score in (2, 5)]
    turns = [turn(f"t{index}", conversation="free", start=index, evaluations=[one]) for index, one in enumerate(grades)]
    shown = report(turns)
    assert "| helpfulness | 3.50 Good |" in markdown_summary(shown)
    assert "3.50 Good" in html_report(shown)
    assert '"band":"Needs Improvement"' in html_report(shown)


def test_labels_without_scores_are_counted():
    labels = ["rude", "kind", "rude", "<b>", "d", "e", "f"]
    turns = [
        turn(f"t{index}", conversation="free", start=index, evaluations=[EvalResult("tone", label=label).to_dict()])
        for index, label in enumerate(labels)
    ]
    shown = report(turns, parse_suite("suite: s\nevaluators: []"))
    assert "rude 2, kind 1, &lt;b&gt; 1, d 1, e 1, …" in html_report(shown)
    assert "| tone | rude 2, kind 1, &lt;b&gt; 1, d 1, e 1, … |" in markdown_summary(shown)


def test_what_calibrations_say_of_a_judge_stands_with_its_scores():
    agrees = {
        "status": "calibrated",
        "text": "agrees with people",
        "confusion": {"k1": 45, "m1": 50, "k0": 45, "m0": 50},
    }
    stale = {"status": "stale", "text": "calibration is stale"}
    for second, text in (
        (agrees, "agrees with people; corrected pass rate"),
        (stale, "agrees with people; calibration"),
    ):
        turns = [
            turn(name, case=name, evaluations=[result("grade", score, details={"judge": {"calibration": said}})])
            for name, score, said in (("a", 1.0, agrees), ("b", 0.0, second))
        ]
        made = report(turns)
        assert (made.judges["grade"]["corrected"] is None) == (second is stale)
        for form in (html_report, json_report, markdown_summary, junit_xml):
            assert text in form(made).replace("\\", ""), form
