"""The HTML report in a real browser: hostile texts, filter and search, links, themes, a phone, paper, size."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.chromium import chromium, picture, tab
from support.patience import PATIENCE_S
from support.reports import demo_suite, demo_turns, report
from support.turn_samples import call, finding, many_turns, result, turn
from tool_call_evaluators import parse_suite
from tool_call_evaluators.report import html as html_module
from tool_call_evaluators.report import html_report
from tool_call_evaluators.report.model import Report

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.about("evaluators/tool_call_evaluators/report")]

ROOT = Path(__file__).parents[3]
ARTIFACTS = ROOT / "artifacts" / "report"
BREAKING_OUT = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("browser")) as session:
        yield session


@pytest.fixture(scope="module")
def demo() -> Report:
    turns = demo_turns()
    longest = max(turns, key=lambda turn: len(turn["tool_calls"]))
    for number, made in enumerate(longest["tool_calls"]):  # as traces would tell
        made |= {"source": "otel_trace", "started_at": longest["started_at"], "ended_at": longest["first_event_at"]}
        made["result"] = made["result"] if number else None
    turns[0]["findings"] = [finding("late_spans", "info"), finding("count_mismatch", message="seen 2 and 1 times")]
    return report(turns, demo_suite())


@pytest.fixture
def opened(browser, tmp_path):
    """Open a report in a tab that is closed at the end."""
    with ExitStack() as until_end:

        def _open(made: Report, fragment: str = "", **screen):
            path = tmp_path / "report.html"
            path.write_text(html_report(made), "utf-8")
            session = until_end.enter_context(tab(browser, **screen))
            session.get(path.as_uri() + fragment)
            return session

        yield _open


def complaints(session) -> list[str]:
    return [entry["message"] for entry in session.get_log("browser")]


def labels(session) -> list[str]:
    return session.execute_script("return [...document.querySelectorAll('.name')].map((name) => name.textContent)")


def texts(session, selector: str) -> list[str]:
    """Of the elements, those in closed parts included."""
    script = "return [...document.querySelectorAll(arguments[0])].map((element) => element.textContent)"
    return session.execute_script(script, selector)


def settle(session, script: str) -> None:
    """Wait until `script` is true in the page."""
    session.set_script_timeout(PATIENCE_S)
    session.execute_async_script(
        f"const done = arguments[0]; const look = () => ({script}) ? done() : requestAnimationFrame(look); look();"
    )


def search(session, text: str) -> None:
    session.execute_script(
        "const input = document.getElementById('search'); input.value = arguments[0];"
        "input.dispatchEvent(new Event('input', {bubbles: true}))",
        text,
    )


def test_hostile_texts_stay_texts(opened):
    evil = turn(
        "a",
        BREAKING_OUT,
        [call(BREAKING_OUT, result=BREAKING_OUT, error=BREAKING_OUT, **{BREAKING_OUT: BREAKING_OUT})],
        [result(BREAKING_OUT, 0.0, reason=BREAKING_OUT, label=BREAKING_OUT, details={"x": BREAKING_OUT})],
        case=BREAKING_OUT,
        response_text=BREAKING_OUT,
        findings=[finding(BREAKING_OUT, message=BREAKING_OUT)],
    )
    session = opened(report([evil]))
    session.execute_script("document.getElementById('open-all').click()")
    settle(session, "document.querySelector('.turn')")
    assert session.title == "Failed: nightly"
    assert session.execute_script("return document.images.length + document.scripts.length") == 2
    assert BREAKING_OUT in session.execute_script("return document.querySelector('.message.agent p').textContent")
    assert complaints(session) == []


def test_what_failed_comes_first_and_the_rest_is_a_click_away(opened, demo):
    session = opened(demo)
    assert labels(session) == ["partial-refund", "cancellation", "double-question"]
    are_open = "return [...document.querySelectorAll('.conversation')].map(item => item.open)"
    assert session.execute_script(are_open) == [True, False, False]
    session.execute_script("document.querySelector('[value=all]').click()")
    settle(session, "document.querySelectorAll('.name').length === 12")
    session.execute_script("document.querySelector('[value=passed]').click()")
    settle(session, "document.querySelectorAll('.name').length === 9")
    assert session.execute_script("return document.querySelector('.count').textContent") == "9 of 12 conversations"


def test_search_looks_into_texts_calls_and_findings(opened, demo):
    session = opened(demo)
    session.execute_script("document.querySelector('[value=all]').click()")
    for text, found in (("TRK-77120", 3), ("count_mismatch", 1), ("small-talk", 1), ("no such thing", 0)):
        search(session, text)
        settle(session, f"document.querySelectorAll('.name').length === {found}")
    session.execute_script("document.querySelector('.tools').requestSubmit()")  # Enter: must not navigate
    assert session.execute_script("return location.search") == ""


def test_calls_that_differ_come_first_and_show_the_difference(opened, demo):
    session = opened(demo, "#c-9")
    settle(session, "document.querySelector('.calls')")
    rows = "return [...document.querySelectorAll('.calls > li')].map((row) => [row.className, row.firstChild.open])"
    assert session.execute_script(rows) == [["changed wrong", True], ["same", False]]
    assert texts(session, ".call-number") == ["2", "1"]
    (differs,) = session.execute_script("return [...document.querySelectorAll('.differs')].map((row) => row.innerText)")
    assert differs.split() == ["amount_eur", "(differs)", "expected", "14.5", "actual", "29"]


CONTRAST = """
const light = (colour) => {
  const canvas = document.createElement("canvas"); canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d"); context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3)
    .map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/, 0\\)$|transparent/.test(colour)) return colour;
  }
  return "white";
};
const poor = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || element.disabled || !element.getClientRects().length) continue;
  const [a, b] = [light(getComputedStyle(element).color), light(ground(element))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) poor.push([element.className || element.tagName, element.textContent.slice(0, 30), ratio]);
}
return poor;
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (360, 740)], ids=["desktop", "phone"])
def test_it_can_be_read_on_every_screen(opened, demo, width, height, dark):
    session = opened(demo, width=width, height=height, dark=dark)
    name = f"{'phone' if width < 600 else 'desktop'}-{'dark' if dark else 'light'}"
    picture(session, ARTIFACTS / f"{name}.png")
    session.execute_script("document.querySelector('[value=all]').click()")
    settle(session, "document.querySelectorAll('.name').length === 12")
    session.execute_script("document.getElementById('open-all').click()")
    session.execute_script("document.querySelector('#matrix summary').click()")
    settle(session, "document.querySelectorAll('.turn').length === 15 && document.querySelector('.matrix')")
    picture(session, ARTIFACTS / f"{name}-open.png")
    wide, screen = session.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide <= screen
    assert session.execute_script(CONTRAST) == []


def test_everything_a_report_can_hold_is_drawn(opened):
    suite = parse_suite(
        "suite: all\nevaluators: [tool_error, {tool_trajectory: {scope: conversation, id: journey}}]\n"
        "gates: {tool_error: {mean: 0.9, forbid: [false information]}}\ncases:\n"
        "  - id: long\n    user_goal: Get it back.\n"
        "    expect: {tool_calls: [{name: tool_0}, {name: gone}], tool_calls_order: [f, g]}\n"
        "    turns: [{user: one, expect: {tool_calls: []}}, {user: two, expect: {response: {a: 1}}}, {user: three, "
        "expect: {tool_calls: [{name: h, arguments: null}]}}]\n"
    )
    turns = [
        turn(
            "a",
            "one",
            case="long",
            conversation="c",
            evaluations=[result("tool_error", 0.0, label="false information")],
        ),
        turn(
            "b", "two", [call(f"tool_{n}") for n in range(320)], case="long", conversation="c", start=2, ended_at=None
        ),
    ]
    session = opened(report(turns, suite, conversation_results={"c": [result("journey", 0.5)]}), "#c-0")
    settle(session, "document.querySelectorAll('.turn').length === 4")
    text = session.execute_script("return document.querySelector('.body').innerText")
    for part in (
        "Goal Get it back.",
        "none, as expected",
        "20 more calls in the export",
        "Not executed: no matching turn.",
        "any arguments",
        "Expected of the conversation",
        'order of tools ["f", "g"]',
        "Scores of the conversation",
        "false information: tool_error said so",
    ):
        assert part in " ".join(text.split()), part
    rows = session.execute_script(
        "return [...document.querySelectorAll('.turn:not([id]) .calls > li')].map((row) => row.className)"
    )
    assert rows[:2] == ["removed wrong", "added wrong"]
    assert complaints(session) == []


def test_ten_thousand_turns_open(opened, tmp_path):
    session = opened(report(list(many_turns(10_000))))
    settle(session, "document.documentElement.dataset.ready")
    assert len(labels(session)) == 50
    session.execute_script("document.querySelector('[value=all]').click()")
    search(session, "question 7777:")
    settle(session, "document.querySelectorAll('.name').length === 1")
    assert (tmp_path / "report.html").stat().st_size < 30_000_000


def test_what_was_seen_is_bounded_and_failed_turns_come_first(monkeypatch):
    monkeypatch.setattr(html_module, "MAX_SEEN_BYTES", 12_000)
    spans = [
        {
            "span_id": str(number), "parent_span_id": "", "name": "s", "failed": False,
            "started_at": "2026-11-21T09:00:00.100000Z", "ended_at": "2026-11-21T09:00:00.200000Z",
        }
        for number in range(20)
    ]  # fmt: skip
    turns = [turn(str(n), "x", [], [result("m", float(n != 3))], spans=spans, start=n) for n in range(5)]
    page = html_report(report(turns))
    assert re.findall('class="seen" id="seen-([^"]*)"', page) == ["3-1"]
    assert "that of 4 more turns" in page
