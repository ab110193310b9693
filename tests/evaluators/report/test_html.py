"""The HTML report as a file: self-contained, escaped, bounded. What it does in a browser is in test_chromium."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files

import pytest
from support.reports import report
from support.turn_samples import call, finding, many_turns, result, turn
from tool_call_evaluators import parse_suite
from tool_call_evaluators.outcomes import compare
from tool_call_evaluators.report import html_report
from tool_call_evaluators.report.figures import percentile, tool_figures
from tool_call_evaluators.report.html import comparison_html, why
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.report.page import page_data
from tool_call_evaluators.report.shorten import shortened_turn

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)><!--"


def data_of(made: Report) -> list[dict]:
    return json.loads(page_data(made))["conversations"]


HOSTILE_SUITE = parse_suite(
    json.dumps(
        {
            "suite": MARKUP,
            "evaluators": [{"tool_error": {"id": MARKUP}}],
            "cases": [
                {
                    "id": MARKUP,
                    "tags": [MARKUP],
                    "user_goal": MARKUP,
                    "turns": [
                        {"user": "x", "expect": {"tool_calls": [{"name": MARKUP, "arguments": {MARKUP: MARKUP}}]}}
                    ],
                }
            ],
        }
    )
)
HOSTILE_TURN = turn(
    "a" + MARKUP,
    MARKUP,
    [call(MARKUP, result=MARKUP, error=MARKUP, **{MARKUP: {"deep": MARKUP}})],
    [result(MARKUP, 0.0, reason=MARKUP, label=MARKUP, details={MARKUP: MARKUP})],
    case=MARKUP,
    conversation="c" + MARKUP,
    response_text=MARKUP,
    agent=MARKUP,
    state=MARKUP,
    trace_id=MARKUP,
    binding=MARKUP,
    findings=[finding(MARKUP, message=MARKUP)],
)


def test_no_text_becomes_markup_and_the_policy_allows_its_own_script_and_style_only():
    page = html_report(report([HOSTILE_TURN], HOSTILE_SUITE))
    assert not re.search(r"<(?:img|iframe|object|link|base)\b", page)
    assert page.count("<script") == 2
    for kind, text in re.findall(r"<(script|style)>(.*?)</\1>", page, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in page.partition("<style>")[0]
    for source in ("default-src", "base-uri", "form-action"):
        assert f"{source} 'none'" in page.partition("<style>")[0]


def test_the_scripts_only_ever_write_texts():
    for asset in files("tool_call_evaluators.report").joinpath("assets").iterdir():
        if asset.name.endswith(".js"):
            script = asset.read_text("utf-8")
            writers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc|DOMParser"
            assert not re.search(writers, script), asset.name


def test_what_can_be_read_without_scripts():
    bad = [turn(f"t{n}", evaluations=[result("tool_error", 0.0, reason="call 1 failed")], start=n) for n in range(20)]
    static = html_report(report(bad)).partition('<script type="application/json"')[0]
    for part in ("Failed", "0 of 20 (0%)", "call 1 failed", "20 times", 'href="#c-0-1"', "and 8 more"):
        assert part in static, part


def test_figures_and_tools_sum_up_the_run():
    suite = parse_suite(
        "suite: x\nevaluators: [tool_error]\ncases: [{id: a, turns: [{user: hi, expect: {tool_calls: "
        "[{name: f, arguments: {n: 1}}, {name: gone}]}}]}]"
    )
    timed = [call("f", n=2) | {"started_at": "2026-11-21T09:00:00Z", "ended_at": "2026-11-21T09:00:02Z"}]
    turns = [
        turn("1", "hi", timed, [result("tool_error", 1.0)], case="a", seconds=1),
        turn("2", "ho", [call("f"), call("g", error="refused")], [result("tool_error", 0.0)], start=9, seconds=3),
    ]
    made = report(turns, suite)
    static = html_report(made).partition("<script")[0]
    for part in ("1 of 2 (50%)", "<dd>1.0 s</dd>", "<dd>3.0 s</dd>", '<td class="number">2.0 s</td>'):
        assert part in static, part
    assert [tuple(tool.values()) for tool in tool_figures(made)] == [
        ("f", 2, 0, 1, 2.0),
        ("g", 1, 1, 0, None),
        ("gone", 0, 0, 1, None),
    ]


def test_a_percentile_is_a_value_that_was_measured():
    assert [percentile([4.0, 1.0, 3.0, 2.0], share) for share in (0.0, 0.5, 0.95, 1.0)] == [1.0, 2.0, 4.0, 4.0]
    assert percentile([], 0.5) is None


def test_what_is_shown_of_a_turn():
    suite = parse_suite(
        "suite: x\nevaluators: [{tool_trajectory: {mode: any_order}}]\n"
        "cases: [{id: a, tags: [smoke], turns: [{user: hi, "
        "expect: {tool_calls: [{name: f, arguments: {n: 1, 'a b': {$any: true}}}], response_contains: ok}}]}]"
    )
    made = turn("t", "hi", [call("f", n=2, **{"a b": 3}), call("g")], case="a")
    made["tool_calls"][0] |= {"started_at": made["started_at"], "ended_at": made["ended_at"]}
    made["tool_calls"][1]["arguments"] = None
    (conversation,) = data_of(report([made], suite))
    assert (conversation["label"], conversation["tags"]) == ("a", ["smoke"])
    (shown,) = conversation["turns"]
    tree = [{"key": "a b", "value": 3}, {"key": "n", "problem": "different", "expected": 1, "actual": 2}]
    changed, added = shown["changes"]
    assert changed == ["changed", 0, 0, ["n: expected 1, got 2"], sorted(tree, key=lambda node: node["key"] != "n")]
    assert added == ["added", None, 1]
    assert shown["expect"] == {"response contains": "ok"}
    assert shown["calls"][0]["time"] == [0.0, 1.0]
    assert shown["calls"][1]["unknown"] is True
    assert shown["time"] == [0.0, pytest.approx(1 / 3, abs=1e-5), 1.0]


@pytest.mark.parametrize("most", [0, 3_000, 30_000, 300_000])
def test_the_data_stays_within_its_bound_down_to_the_headings(most):
    made = report(list(many_turns(100, 5_000)))
    text = page_data(made, most)
    conversations = json.loads(text)["conversations"]
    assert len(conversations) == 50
    headings = sum(len(json.dumps(item)) + 2 for item in conversations if item.get("omitted"))
    assert len(text.encode()) <= most + headings + 100
    if any(item["status"] == "failed" and item.get("omitted") for item in conversations):
        assert all(item.get("omitted") for item in conversations if item["status"] != "failed")


def test_turns_are_cut_to_what_a_report_shows():
    long = "x" * 1_000_000
    failed = result("tool_error", 0.0, reason=long)
    said = turn("a", long, [call("f", result=long, error=long, x=long)], [failed], response_text=long)
    said["findings"] = [finding("odd", message=long)]
    short = shortened_turn(said)
    assert len(json.dumps(short)) < len(json.dumps(said)) - 4_900_000
    assert short["user_text"] == long
    assert short["tool_calls"][0]["arguments"] == {"x": long}
    assert short["response_text"].endswith("… (980,040 more characters)")
    assert page_data(report([short])).count("more characters") == page_data(report([said])).count("more characters")
    judge = {"requests": 1, "prompt_tokens": 2, "completion_tokens": 3, "cost": None}
    told = [
        result("tool_error", 1.0, details={"failed": []}),
        result("helpfulness", 1.0, details={"votes": [1.0], "judge": judge}),
        result("tool_trajectory", 0.5, details={"missing": [1]}),
    ]
    kept = shortened_turn(turn("b", calls=[call("f")], evaluations=told))["evaluations"]
    assert [item["details"] for item in kept] == [{}, {"judge": judge}, {"missing": [1]}]


def test_odd_values_are_still_json():
    odd = turn("t\ud800", "\x00", [call("f", n=float("nan"), m=float("inf"), deep=[float("-inf")])])
    (conversation,) = data_of(report([odd]))
    assert conversation["turns"][0]["calls"][0]["arguments"] == {"deep": ["-inf"], "m": "inf", "n": "nan"}
    html_report(report([odd])).encode("utf-8")


def test_why_a_run_failed_is_told_once_with_links_to_where_the_caller_lists_turns():
    turns = [
        turn("good", case="a", evaluations=[result("tool_error", 1.0)]),
        turn("t", "hi", case="b", evaluations=[result("tool_error", 0.0, reason="the call failed")]),
    ]
    made = report(turns)
    static = html_report(made).partition('<script type="application/json"')[0]
    told, page = why(made), static.partition("<noscript>")[0]
    assert (page.count("the call failed"), page.count(told)) == (1, 1)
    assert static.index(told) < static.index('id="cases"') < static.index('id="figures"')
    linked = why(made, lambda index, number: f'/{index}/{number}?q="')
    assert re.findall(r'<a href="(.+?)">(.+?)</a>', linked) == [("/1/1?q=&#34;", "b")]
    listed = static.partition('<ol class="unscripted">')[2].partition("</ol>")[0]
    assert re.findall(r"<li><b>(.+?)</b> (\w+)", listed) == [("b", "failed"), ("a", "passed")]


def one(case: str, score: float, *calls: dict) -> dict:
    return turn(case, "x", list(calls), [result("tool_error", score)], case=case)


@pytest.fixture(scope="module")
def page() -> str:
    before = [one("refund", 1.0, call("pay", amount=1, to={"name": "Ada"}), call("mail")), one("old", 1.0)]
    after = [one("refund", 0.0, call("pay", amount=2, to={"name": "Eve"})), one(MARKUP, 1.0, call(MARKUP, x=MARKUP))]
    return comparison_html(compare(before, after, names=("monday", f"tuesday {MARKUP}")))


def test_calls_of_both_runs_are_next_to_each_other_with_their_differences(page):
    assert ">Worse<" in page
    rows = re.findall(r'<li class="(changed|removed|added|same)"><span class="mark"', page)
    assert rows[:2] == ["changed", "removed"]
    assert page.count('<div class="argument differs">') == 4
    assert '<dd dir="ltr">1</dd>' in page
    assert '<dd dir="ltr">2</dd>' in page
    assert '<a href="#case-0">old</a>' in page or '<a href="#case-0">refund</a>' in page
    told = ('class="calls compared"', "now failing: tool_error", "<h2>Scores", "Too few cases")
    assert tuple(sorted(told, key=page.index)) == told


def test_no_text_becomes_markup_and_the_policy_allows_the_style_only(page):
    assert "<script" not in page
    assert "<img" not in page
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in page
    assert not re.search(r"""\s(?:src|href)=["'](?!#)""", page.partition("</style>")[2])
