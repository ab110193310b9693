"""The pages in a real browser: live turns, lost connections, hostile contents, filters, keys, accessibility."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents.faulty_agent import FAULTS, faulty
from agents.replay_agent import ReplayAgent
from agents.serving import ServerThread
from support.chromium import chromium, tab
from support.patience import PATIENCE_S
from support.provision import node_environment
from support.turn_samples import call, finding, result, turn
from tool_call_evaluators.judged.quality import Helpfulness
from tool_call_evaluators.outcomes.calibration import Consistency, JudgeVerdict, Label, Labels, calibration

from .conftest import A2A, CARD, Shown, artifact, json_answer, shown_proxy, status, task

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.about("proxy/a2a_eval_proxy/features/pages", "evaluators/tool_call_evaluators/report"),
]

ROOT = Path(__file__).parents[3]
DEMO = str(ROOT / "proxy/a2a_eval_proxy/features/demo/suite.yaml")
SCREENS = ((360, "light"), (1280, "dark"), (1920, "light"))
"""The width decides what fits, the theme which colours there are."""
BREAKING_OUT = "</script></pre><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
HOSTILE = (
    BREAKING_OUT,
    "\u202egnp.exe",
    "{{ 7 * 7 }}",
    "javascript:alert(1)",
    "\x00\x1b[31m",
    "🧑‍🚀" * 40,
    "x" * 5_000,
)


def demo_turns() -> list[dict[str, Any]]:
    lines = (ROOT / "tests/evaluators/fixtures/demo-turns.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("browser")) as session:
        session.set_script_timeout(PATIENCE_S)
        yield session


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Iterator[Shown]:
    """A proxy with the suite of the demo and the turns that its agent made."""
    with shown_proxy(tmp_path_factory.mktemp("demo"), suite=DEMO) as proxy:
        proxy.store(*demo_turns())
        yield proxy


FAULT = next(name for name, fault in FAULTS.items() if fault.breaks)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A proxy with the suite of the demo, whose cases two runs have, and an agent that gets the extension wrong."""
    turns = demo_turns()
    folder = tmp_path_factory.mktemp("shop")
    with ServerThread(faulty(FAULT)) as agent, shown_proxy(folder, suite=DEMO, upstream=agent.url) as proxy:
        for run in ("monday", "tuesday"):
            proxy.store(*(item | {"run": run, "turn_id": f"{run}-{item['turn_id']}"} for item in turns))
        proxy.store(*(item | {"run": "begun", "turn_id": f"begun-{item['turn_id']}"} for item in turns[:3]))
        yield proxy


@pytest.fixture(scope="module")
def axe() -> str:
    return (node_environment("axe", Path(__file__).parent / "axe") / "node_modules/axe-core/axe.min.js").read_text()


@contextmanager
def opened(browser: Any, address: str, **screen: Any) -> Iterator[Any]:
    with tab(browser, **screen) as session:
        go_to(session, address)
        yield session


def go_to(session: Any, address: str) -> None:
    session.get(address)
    settle(session, "document.documentElement.dataset.ready")


def settle(session: Any, script: str) -> None:
    """Wait until `script` is true in the page, which may change meanwhile: what waits in the page ends with it."""
    from selenium.common.exceptions import JavascriptException
    from selenium.webdriver.support.wait import WebDriverWait

    look = (
        "const [done] = arguments, end = Date.now() + 1000;"
        f"(function look() {{ if ({script}) done(true); else if (Date.now() > end) done(false);"
        "else setTimeout(look, 20); })()"
    )
    wait = WebDriverWait(session, PATIENCE_S, poll_frequency=0.01, ignored_exceptions=[JavascriptException])
    wait.until(lambda _: session.execute_async_script(look), script)


def texts(session: Any, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((element) => element.textContent.trim())"
    found: list[str] = session.execute_script(script, selector)
    return found


def complaints(session: Any) -> list[str]:
    return [entry["message"] for entry in session.get_log("browser")]


def keys(session: Any, *pressed: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(session).send_keys(*pressed).perform()


def failed_turn(demo: Shown) -> str:
    page = demo.admin.get("/api/turns", params={"case": "partial-refund"}).json()
    return str(page["items"][0]["turn_id"])


# ── live ────────────────────────────────────────────────────────────────────────────────────────────────────


LOOKUP = {"id": "1", "name": "lookup_order", "arguments": {"order_id": "ORD-1"}}


def test_a_call_is_in_the_list_and_in_the_turn_while_the_agent_answers(browser: Any, shown: Shown) -> None:
    found = {**LOOKUP, "result": "shipped"}
    events = [task(), artifact("Let me ", LOOKUP), artifact("look.", found, append=True), status("COMPLETED")]
    with opened(browser, f"{shown.url}/?q=live+one") as session:
        settle(session, "document.querySelector('.live').textContent === 'live'")
        with shown.streaming("live one", events) as release:
            settle(session, "document.querySelector('.row.open')")
            release()
            settle(session, "document.querySelector('.row.open .chip')")
            assert texts(session, ".row .chip") == ["lookup_order"]
            session.get(session.execute_script("return document.querySelector('.row .text').href"))
            settle(session, "document.querySelector('#answer').textContent === 'Let me '")
            assert texts(session, ".calls .tool") == ["lookup_order"]
            release()
            settle(session, "document.querySelector('.calls .result')")
            settle(session, "document.querySelector('#answer').textContent === 'Let me look.'")
            assert texts(session, ".result pre") == ["shipped"]
            assert texts(session, ".verdict") == ["…open open"]
            release()
        settle(session, "document.querySelector('.results')")
        assert texts(session, ".metric") == ["✓passed tool_error"]
        assert complaints(session) == []


def test_a_lost_connection_loses_nothing(browser: Any, tmp_path: Path, port: int) -> None:
    """The proxy restarts on the same port, with turns that the page has not seen."""
    with ExitStack() as running:
        first = running.enter_context(shown_proxy(tmp_path, admin=f"127.0.0.1:{port}"))
        first.store(turn("old", user="old"))
        with opened(browser, first.url) as session:
            settle(session, "document.querySelector('.live').textContent === 'live'")
            running.close()
            settle(session, "document.querySelector('.live').textContent === 'connecting'")
            with shown_proxy(tmp_path, admin=f"127.0.0.1:{port}") as second:
                second.store(turn("new", user="new"))
                settle(session, "document.querySelectorAll('.row').length === 2")
                assert texts(session, ".row .text") == ["new", "old"]


def send(shop: Shown, run: str) -> None:
    """One turn of that run through the proxy."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": FAULTS[FAULT].message}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = A2A | {"a2a-eval-run": run}
    card = httpx.get(f"{shop.proxy.url}/.well-known/agent-card.json", trust_env=False).json()
    url = next(item["url"] for item in card["supportedInterfaces"] if item["protocolBinding"] == "JSONRPC")
    assert httpx.post(url, json=request, headers=headers, trust_env=False).status_code == 200


def test_a_run_that_goes_by_updates_itself_and_so_does_the_list(browser: Any, shop: Shown) -> None:
    send(shop, "live")
    shop.flush()
    with opened(browser, f"{shop.url}/runs/live") as session:
        send(shop, "live")
        settle(session, "document.querySelector('#figures dd').textContent === '2'")
        go_to(session, f"{shop.url}/runs")
        send(shop, "live-2")
        settle(session, "document.querySelector('tbody tr th').textContent.includes('live-2')")
        assert complaints(session) == []


# ── contents ────────────────────────────────────────────────────────────────────────────────────────────────


def test_hostile_contents_stay_text(browser: Any, shown: Shown) -> None:
    calls = [call(evil, result=evil, error=evil, **{"arguments": evil, evil: {evil: [evil]}}) for evil in HOSTILE]
    results = [result(evil, 0.0, reason=evil, label=evil, details={evil: evil}) for evil in HOSTILE]
    findings = [finding(evil, message=evil) for evil in HOSTILE]
    more = {"response_text": "\n".join(HOSTILE), "findings": findings, "run": BREAKING_OUT, "agent": BREAKING_OUT}
    evil = turn("hostile", BREAKING_OUT, calls, results, case=BREAKING_OUT, conversation=BREAKING_OUT, **more)
    shown.store(evil)
    with opened(browser, f"{shown.url}/turns/hostile") as session:
        assert session.title.startswith("</script></pre><script>")
        assert session.execute_script("return [document.images.length, document.scripts.length]") == [0, 2]
        assert BREAKING_OUT in texts(session, "#answer")[0]
        assert "\\u202e" in texts(session, "#answer")[0]
        assert BREAKING_OUT in texts(session, ".metric")[0]
        session.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
        for link in session.execute_script("return [...document.links].map((link) => link.protocol)"):
            assert link == "http:"
        session.get(f"{shown.url}/?conversation=" + BREAKING_OUT.replace("/", "%2F").replace("#", "%23"))
        settle(session, "document.documentElement.dataset.ready")
        assert session.execute_script("return [document.images.length, document.scripts.length]") == [0, 2]
        assert len(texts(session, ".row")) == 1
        assert session.title != "owned"
        assert complaints(session) == []


# ── filters and keys ────────────────────────────────────────────────────────────────────────────────────────


def test_filters_are_in_the_address_and_come_back_from_it(browser: Any, demo: Shown) -> None:
    with opened(browser, demo.url) as session:
        assert len(texts(session, ".row")) == 15
        session.execute_script("document.querySelector('[name=verdict][value=failed]').click()")
        settle(session, "location.search === '?verdict=failed' && document.documentElement.dataset.ready")
        assert texts(session, ".case-of") == ["double-question", "cancellation", "partial-refund"]
        session.execute_script(
            "document.querySelector('[name=tool]').value = 'issue_refund';"
            "document.querySelector('[name=q]').value = 'CANCEL'; document.querySelector('.filters').requestSubmit()"
        )
        settle(session, "location.search.includes('tool') && document.documentElement.dataset.ready")
        assert session.execute_script("return location.search") == "?verdict=failed&q=CANCEL&tool=issue_refund"
        assert texts(session, ".case-of") == ["cancellation"]
        values = "return [...new FormData(document.querySelector('.filters'))].filter(([, value]) => value)"
        given = [["verdict", "failed"], ["q", "CANCEL"], ["tool", "issue_refund"]]
        assert sorted(session.execute_script(values)) == sorted(given)
        session.back()
        settle(session, "document.querySelectorAll('.row').length === 3")


def test_the_keyboard_is_enough(browser: Any, demo: Shown) -> None:
    from selenium.webdriver.common.keys import Keys

    with opened(browser, demo.url) as session:
        keys(session, "j", "j", "k", "j", "j")
        focused = "return document.activeElement.closest('.row').querySelector('.case-of').textContent"
        assert session.execute_script(focused) == "partial-refund"
        keys(session, Keys.ENTER)
        settle(session, "document.querySelector('#turn') && document.documentElement.dataset.ready")
        session.back()
        settle(session, "document.querySelector('.rows') && document.documentElement.dataset.ready")
        keys(session, "/", "k", "f")
        assert session.execute_script("return document.activeElement.name + document.activeElement.value") == "qkf"
        session.execute_script("document.activeElement.value = ''; document.activeElement.blur()")
        for search in ("?verdict=failed", ""):
            keys(session, "f")
            settle(session, f"location.search === '{search}' && document.documentElement.dataset.ready")


# ── everybody ───────────────────────────────────────────────────────────────────────────────────────────────


def test_every_screen_fits_every_width_and_is_accessible(browser: Any, demo: Shown, axe: str) -> None:
    labels, verdict = Labels.of([Label(failed_turn(demo), False)]), JudgeVerdict(True, 4.0, None, "m", "helpfulness@1")
    judge = Helpfulness(judge={"model": "m"})
    made = calibration(judge, labels, {failed_turn(demo): verdict}, Consistency(), "2026-11-28T09:00:00Z")
    demo.loop.run(demo.proxy.control.store.put_calibration(made))
    screens = {
        "turns": "/?evaluator=tool_error",
        "turn": f"/turns/{failed_turn(demo)}",
        "case": f"/turns/{failed_turn(demo)}/case",
        "judges": "/judges",
        "begin-to-label": "/label?metric=tool_error",
        "label": "/label?metric=tool_error&who=ann",
        "nothing": "/?q=nothing+like+that",
        "error": "/turns/none",
    }
    fit_and_are_accessible(browser, demo, screens, axe)


def test_the_screens_of_runs_fit_every_width_and_are_accessible(browser: Any, shop: Shown, axe: str) -> None:
    conversation = shop.admin.get("/api/turns?case=follow-up").json()["items"][0]["conversation_id"]
    screens = {
        "runs": "/runs",
        "run": "/runs/monday?wait=1",
        "run-not-complete": "/runs/begun?wait=1",
        "compare": "/compare?a=monday&b=tuesday&wait=1",
        "cases": "/cases",
        "conversation": f"/conversations/{conversation}?run=monday",
    }
    fit_and_are_accessible(browser, shop, screens, axe)


def test_every_screen_of_several_agents_fits_every_width_and_is_accessible(
    browser: Any, tmp_path: Path, port: int, axe: str
) -> None:
    """One with a card and a failed turn, and others, which are away."""
    away = {f"agent-{number}-with-a-rather-long-name": f"http://127.0.0.1:{port}" for number in range(12)}
    with ReplayAgent() as agent:
        agent.card = json_answer(CARD)
        with shown_proxy(tmp_path, suite=DEMO, agents={"orders": agent.url, **away}) as proxy:
            failed = [result("tool_error", 0.0)]
            proxy.store(turn("f", "Where is it?", [], failed, case="one", agent_name="orders", run="nightly-orders"))
            screens = {
                "first-of-agents": "/",
                "agents": "/agents",
                "agent": "/agents/orders",
                "cases-of-agent": "/cases?agent=orders",
            }
            fit_and_are_accessible(browser, proxy, screens, axe)


def fit_and_are_accessible(browser: Any, shown: Shown, screens: Mapping[str, str], axe: str) -> None:
    with tab(browser) as session:
        for screen, path in screens.items():
            go_to(session, shown.url + path)
            for width, theme in SCREENS:
                look(session, width, theme)
                page, room = session.execute_script(
                    "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
                )
                assert page <= room, screen
                if width < 1920:
                    assert problems(session, axe) == [], (screen, width)


def look(session: Any, width: int, theme: str) -> None:
    """Change the size of the screen and the preferred colours."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    feature = {"name": "prefers-color-scheme", "value": theme}
    session.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def problems(session: Any, axe: str) -> list[str]:
    """What axe-core finds, other than minor matters."""
    if not session.execute_script("return Boolean(window.axe)"):
        session.execute_script(axe)
    found = session.execute_async_script(
        "const [done] = arguments;"
        "axe.run(document, {resultTypes: ['violations']}).then((results) => done(results.violations))"
    )
    return [
        f"{item['id']}: {item['nodes'][0]['html'][:200]}"
        for item in found
        if item["impact"] in ("serious", "critical", "moderate")
    ]


SUITE = """\
suite: shop
evaluators: [tool_trajectory]  # ours
cases:
  - id: other
    turns:
      - user: Where is my parcel?
        expect: {tool_calls: [{name: track}]}
"""


def test_a_turn_is_annotated_made_a_case_bound_and_copied(browser: Any, tmp_path: Path, axe: str) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE)
    lookup = {"id": "1", "name": "lookup_order", "arguments": {"order_id": "ORD-1"}, "result": "shipped"}
    with shown_proxy(tmp_path, suite=str(suite)) as proxy:
        events = [task(), artifact("It is shipped.", lookup), status("COMPLETED")]
        with proxy.streaming("Where is ORD-1?", events) as next_event:
            next_event()
            next_event()
        proxy.flush()
        turn_id = proxy.admin.get("/api/turns").json()["items"][0]["turn_id"]
        with opened(browser, f"{proxy.url}/turns/{turn_id}") as session:
            assert "answer complete" in " ".join(texts(session, ".waterfall th"))

            session.execute_script("document.querySelector('[value=wrong]').checked = true")
            session.find_element("name", "note").send_keys("it must ask <first>")
            session.find_element("name", "who").send_keys("ann")
            press(session, "Annotate")
            assert texts(session, ".annotations .severity") == ["wrong"]
            assert texts(session, ".annotations .said") == ["it must ask <first>"]
            assert session.find_element("name", "who").get_property("value") == "ann"
            assert "annotated: 1 wrong" in proxy.admin.get("/").text

            session.execute_cdp_cmd(
                "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
            )
            session.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})  # for the clipboard
            assert problems(session, axe) == []

            press(session, "Bind and score again")
            proxy.flush()
            assert proxy.admin.get(f"/api/turns/{turn_id}").json()["case_id"] == "other"

            session.get(f"{proxy.url}/turns/{turn_id}/case")
            settle(session, "document.documentElement.dataset.ready")
            assert copy(session, "Copy").startswith("  - id: where-is-ord-1\n")
            press(session, f"Append to {suite}")
            assert "where-is-ord-1" in " ".join(texts(session, "h2"))
            assert suite.read_text().startswith(SUITE)
            assert "lookup_order" in suite.read_text()

            session.get(f"{proxy.url}/turns/{turn_id}")
            press(session, "Delete")
            assert texts(session, ".annotations .severity") == []
            go_to(session, f"{proxy.url}/turns/{turn_id}/wire")
            assert len(texts(session, ".wire-events > li")) == 3
            assert problems(session, axe) == []
            assert complaints(session) == []


def press(session: Any, words: str) -> None:
    """Press the button with these words, which sends a form, and wait for the next page."""
    from selenium.webdriver.support.wait import WebDriverWait

    (button,) = (one for one in session.find_elements("tag name", "button") if one.text == words)
    session.execute_script("document.documentElement.dataset.old = 1")
    session.execute_script("arguments[0].click()", button)
    arrived = "const {old, ready} = document.documentElement.dataset; return !old && ready"
    # A script that waits would end with the old page.
    WebDriverWait(session, PATIENCE_S).until(lambda _: session.execute_script(arrived))


def copy(session: Any, words: str) -> str:
    """What the button with these words copies."""
    (button,) = (one for one in session.find_elements("tag name", "button") if one.text == words)
    session.execute_script("arguments[0].click()", button)
    settle(session, "[...document.querySelectorAll('button')].some((one) => one.textContent == 'Copied')")
    text: str = session.execute_async_script("navigator.clipboard.readText().then(arguments[0], arguments[0])")
    settle(session, "![...document.querySelectorAll('button')].some((one) => one.textContent == 'Copied')")
    return text
