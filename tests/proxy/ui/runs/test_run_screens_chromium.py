"""The screens of runs, cases and conversations in a real browser: live, accessible, on every width."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from agents.faulty_agent import FAULTS, faulty
from agents.serving import ServerThread

from ..conftest import A2A, Shown, shown_proxy
from ..test_chromium import (  # noqa: F401  # some are fixtures
    ROOT,
    axe,
    browser,
    complaints,
    fit_and_are_accessible,
    opened,
    settle,
    texts,
)

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FAULT = next(name for name, fault in FAULTS.items() if fault.breaks)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A proxy with the suite of the demo, whose cases two runs have, and an agent that gets the extension wrong."""
    lines = (ROOT / "tests/evaluators/fixtures/demo-turns.jsonl").read_text("utf-8").splitlines()
    turns = [json.loads(line) for line in lines]
    suite = str(ROOT / "proxy/a2a_eval_proxy/features/demo/suite.yaml")
    folder = tmp_path_factory.mktemp("shop")
    with ServerThread(faulty(FAULT)) as agent, shown_proxy(folder, suite=suite, upstream=agent.url) as proxy:
        for run in ("monday", "tuesday"):
            proxy.store(*(item | {"run": run, "turn_id": f"{run}-{item['turn_id']}"} for item in turns))
        proxy.store(*(item | {"run": "begun", "turn_id": f"begun-{item['turn_id']}"} for item in turns[:3]))
        yield proxy


def send(shop: Shown, run: str) -> None:
    """One turn of that run through the proxy."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": FAULTS[FAULT].message}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = A2A | {"a2a-eval-run": run}
    card = httpx.get(f"{shop.proxy.url}/.well-known/agent-card.json", trust_env=False).json()
    url = next(item["url"] for item in card["supportedInterfaces"] if item["protocolBinding"] == "JSONRPC")
    assert httpx.post(url, json=request, headers=headers, trust_env=False).status_code == 200


def test_a_run_that_goes_by_updates_itself_and_choices_stay(browser, shop):  # noqa: F811
    send(shop, "live")
    shop.flush()
    with opened(browser, f"{shop.url}/runs/live") as session:
        turns = "[...document.querySelectorAll('.facts > div')].map((item) => item.textContent).join()"
        assert "turns1," in session.execute_script(f"return {turns}")
        send(shop, "live")
        settle(session, f"{turns}.includes('turns2,')")
        session.get(f"{shop.url}/runs")
        settle(session, "document.documentElement.dataset.ready")
        choose = "const choice = document.querySelector('[name=a][value=monday]'); choice.click(); choice.focus()"
        session.execute_script(choose)
        send(shop, "live-2")
        settle(session, "document.querySelector('tbody tr th').textContent.includes('live-2')")
        chosen = "return [document.querySelector('[name=a]:checked').value, document.activeElement.value]"
        assert session.execute_script(chosen) == ["monday", "monday"]
        session.execute_script(
            "document.querySelector('[name=b][value=tuesday]').click(); document.querySelector('form button').click()"
        )
        settle(session, "document.title.startsWith('monday → tuesday') && document.documentElement.dataset.ready")
        assert complaints(session) == []


def test_the_screens_fit_every_width_and_are_accessible(browser, shop, axe):  # noqa: F811
    conversation = next(row for row in shop.admin.get("/api/turns?case=follow-up").json()["items"])["conversation_id"]
    screens = {
        "runs": "/runs",
        "run": "/runs/monday?wait=1",
        "run-not-complete": "/runs/begun?wait=1",
        "compare": "/compare?a=monday&b=tuesday&wait=1",
        "cases": "/cases",
        "conversation": f"/conversations/{conversation}?run=monday",
    }
    fit_and_are_accessible(browser, shop, screens, axe)
