"""JUnit XML, Markdown and JSON of a run: what they say, that they agree with the verdict, that nothing breaks them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reports
from support.turn_samples import call, finding, many_turns, result, turn
from tool_call_evaluators import EvalResult, parse_suite
from tool_call_evaluators.outcomes.comparison import compare
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report, html_report, json_report, junit_xml, markdown_summary
from tool_call_evaluators.report.figures import tool_figures
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.report.page import page_data

HOSTILE = "</system-out>]]>\x00\x1b[31m\ud800 <script>alert(1)</script> | `x` ![x](http://evil.example/x.png) @all\n# h"

ONE = parse_suite("suite: one\nevaluators: [tool_error]\ncases: [{id: status, turns: [{user: Where is my order?}]}]")


GOOD, BAD = result("tool_error", 1.0), result("tool_error", 0.0)


def report(turns, suite=ONE, **more) -> Report:
    return reports.report(turns, suite, **more)


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


@pytest.mark.parametrize(
    ("turns", "found"),
    [
        ([], {"error": "missing_turn"}),
        ([turn("a", case="status", state="TASK_STATE_FAILED", evaluations=[GOOD])], {"error": "failed_turn"}),
        ([turn("a", case="status", evaluations=[BAD])], {"failure": "failed"}),
        ([turn("a", case="status", evaluations=[result("tool_error", None)])], {"skipped": None}),
    ],
)
def test_junit_tells_what_did_not_run_from_what_was_not_good_enough(turns, found):
    (case, *_) = checked(junit_xml(report(turns))).findall("testcase[@name='status']")
    assert {child.tag: child.get("type") for child in case if child.tag in ("error", "failure", "skipped")} == found


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
    turns = [turn("a", case="status", evaluations=[BAD])]
    turns.append(turn("b", case="other", calls=[call("look_up")], evaluations=[GOOD]))
    made = report(turns, suite)
    sentence = (
        "status is in quarantine until 2099-01-01, and does not count: index down (0 of 1 scored attempts passed)"
    )
    assert made.passed
    xml = checked(junit_xml(made))
    assert (xml.get("failures"), xml.get("skipped")) == ("0", "1")
    assert xml.find("properties/property[@name='quarantine']").get("value") == sentence
    assert xml.find("testcase[@name='status']/skipped").get("message") == sentence
    assert json.loads(json_report(made))["quarantined"] == {"status": sentence}
    assert sentence in html_report(made)
    assert "In quarantine" in markdown_summary(made)


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
    for form, parts in {
        junit_xml: [f"a #1: {words}", rf"failed: tool_error 0.00 \({words}\): tool_error said so"],
        markdown_summary: [
            r"1 failed .*1 of them below threshold.* 1 passed ·",
            rf"\| 1 \| a .*tool.*error; {words}.* \|",
            rf"\| {sign} \| .* ≥ 0\.[59]0 \| 0\.50 \|",
        ],
        json_report: [rf'"notes": \[\s*"{words}"', r'"notes": \[\]', f'"note": "{words}"', r'"actual": 0\.5\b'],
        html_report: [
            rf'"notes":\["{words}"\]',
            f'"note":"{words}"',
            rf"{sign}</span>.*?≥ 0\.[59]0</th><td[^>]*>0\.50</td>",
        ],
    }.items():
        for part in parts:
            assert re.search(part, form(made)), part


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
    not_visible = finding("no_capture", message="the card declares no extension")
    for findings, changes, figures in (
        ([], [{"kind": "removed", "left": 0}], [("refund", 1)]),
        ([not_visible], None, []),
    ):
        shown = report([turn("1", "Refund me", case="refund", findings=findings)], UNSEEN)
        (conversation,) = json.loads(json_report(shown))["conversations"]
        assert [conversation["call_changes"], conversation["turns"][0]["call_changes"]] == [changes] * 2
        assert [(tool["name"], tool["mismatches"]) for tool in tool_figures(shown)] == figures
    (page,) = json.loads(page_data(shown))["conversations"]
    assert "changes" not in page
    assert (page["turns"][0]["unseen"], page["turns"][0]["changes"]) == (True, [["unknown", 0, None]])
    assert [call["name"] for call in page["turns"][0]["expected_calls"]] == ["refund"]


@pytest.mark.parametrize(
    ("results", "shown"),
    [
        pytest.param(
            [EvalResult("helpfulness", score, passed=score >= 3, scale=(1, 5)) for score in (2, 5)],
            {
                markdown_summary: ["| helpfulness | 3.50 \\(1 to 5\\) Good |"],
                html_report: ["3.50 (1 to 5) Good", '"band":"Needs Improvement"'],
            },
            marks=pytest.mark.statement(56),
        ),
        (
            [EvalResult("tone", label=label) for label in ("rude", "kind", "rude", "<b>", "d", "e", "f")],
            {
                html_report: ["rude 2, kind 1, &lt;b&gt; 1, d 1, e 1, …"],
                markdown_summary: ["| tone | rude 2, kind 1, &lt;b&gt; 1, d 1, e 1, … |"],
            },
        ),
        (
            [EvalResult("tone", label="rude", reason="It shouts.")],
            {
                junit_xml: ["scored: tone rude: It shouts."],
                json_report: ['"label": "rude"'],
                html_report: ["It shouts."],
            },
        ),
    ],
)
def test_grades_and_labels_have_names(results, shown):
    turns = [
        turn(f"t{index}", conversation="free", start=index, evaluations=[one.to_dict()])
        for index, one in enumerate(results)
    ]
    made = report(turns)
    for form, texts in shown.items():
        assert all(text in form(made) for text in texts), form


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


SUITE = parse_suite(
    "suite: s\nevaluators: [tool_trajectory]\n"
    "cases: [{id: a, turns: [{user: x}]}, {id: b, turns: [{user: y}]}, {id: c, turns: [{user: z}]}]"
)
TEXTS = {"a": "x", "b": "y", "c": "z"}


def run_of(scores: dict[str, float], metric: str = "tool_trajectory") -> list[dict]:
    return [
        turn(f"{case}{value}", TEXTS[case], case=case, evaluations=[result(metric, value)], conversation=f"c-{case}")
        for case, value in scores.items()
    ]


def compared(before: dict[str, float], after: dict[str, float], *, metric: str = "tool_trajectory") -> Report:
    turns = run_of(after)
    conversations = follow(turns, SUITE)
    made = build_report("tuesday", turns, run_verdict(SUITE, conversations).to_dict(), suite=SUITE)
    comparison = compare(run_of(before, metric), turns, names=("<monday>", "tuesday"))
    return replace(made, baseline=comparison)


def test_every_form_names_the_baseline() -> None:
    made = compared({"a": 1.0}, {"a": 0.0})
    page = html_report(made)
    for part in ("&lt;monday&gt;: not enough runs to decide (1", '<a href="comparison.html">'):
        assert part in page
    assert "Compared with &lt;monday&gt;: not enough runs to decide \\(1 newly failing" in markdown_summary(made)
    gone = compared({"a": 1.0, "b": 1.0}, {"a": 1.0})
    assert "Compared with &lt;monday&gt;: worse \\(1 missing, 1 unchanged\\)" in markdown_summary(gone)
    assert json.loads(json_report(made))["baseline"]["counts"] == {"newly_failing": 1}
    assert json.loads(json_report(replace(made, baseline=None)))["baseline"] is None
