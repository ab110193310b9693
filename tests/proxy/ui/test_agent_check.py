"""The check of an agent, run for a page, against real agents."""

from __future__ import annotations

import asyncio
import logging
import re
import threading

import a2a_eval_proxy.check
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.ui import agent_check
from a2a_eval_proxy.ui.agent_check import AgentCheck
from agents.faulty_agent import FAULTS, faulty
from agents.serving import ServerThread
from support.patience import PATIENCE_S

FAULT = next(name for name, fault in FAULTS.items() if fault.breaks)


def check_of(url: str, **headers: str) -> AgentCheck:
    return AgentCheck(url, headers, lambda: None)


async def ended(check: AgentCheck) -> AgentCheck:
    assert check._task is not None
    await check._task
    return check


def headings(report: str) -> list[str]:
    """Those of the sections after the result."""
    return re.findall(r'<h2 id="(?:card|table-\d)[\w-]*">(.+?)</h2>', report)


async def test_the_report_has_what_is_broken_its_evidence_and_its_repair():
    with ServerThread(faulty(FAULT)) as agent:
        check = check_of(agent.url)
        check.start()
        running = check._task
        check.start()  # a second click
        assert check._task is running
        assert check.step == "agent card"
        report = (await ended(check)).report
    assert report is not None
    assert re.search(r'<h2 id="result-title">.+<span class="unseen">failed </span> not conforming', report)
    broken = re.findall(r'<h3 id="rule-\d+">.+<span class="unseen">failed </span> ([\w-]+)<', report)
    assert set(broken) >= FAULTS[FAULT].breaks
    evidence = re.findall(
        r'<p class="failure" dir="auto">.+</p>\n<details.+?<pre dir="auto">(.*?)</pre>', report, re.DOTALL
    )
    assert evidence
    assert evidence[0].startswith(("GET http", "POST http"))
    assert "\nHTTP " in evidence[0]
    assert re.search(r"<b>Fix</b> .+\.</p>\n<p class=\"quiet\"><b>Why</b> .+\.</p>", report)
    assert headings(report) == ["Agent card", "Traffic"]
    heads, *rows = re.findall(r"<tr>.+?</tr>", report)
    assert all(row.count("<td>") == heads.count("<th") - 1 > 0 for row in rows)


async def test_credentials_do_not_appear():
    with ServerThread(faulty(FAULT)) as agent:
        check = check_of(agent.url, authorization="Bearer very-secret-token")
        check.start()
        assert "very-secret-token" not in str((await ended(check)).report)


async def test_an_agent_that_is_away_a_bad_setting_and_a_check_without_end_are_named(port, monkeypatch, caplog):
    check = check_of(f"http://127.0.0.1:{port}")
    check.start()
    assert f"127.0.0.1:{port}" in ((await ended(check)).problem or "")

    def broken():
        raise ConfigError("upstream_tls.ca: no such file")

    check = AgentCheck("http://127.0.0.1:1", {}, broken)
    check.start()
    assert (await ended(check)).problem == "upstream_tls.ca: no such file"
    monkeypatch.setattr(agent_check, "MAX_CHECK_S", 0.0)
    check.start()
    check._tls = lambda: None
    assert "longer than" in ((await ended(check)).problem or "")
    monkeypatch.setattr(a2a_eval_proxy.check, "ProbeClient", None)
    check.start()
    with caplog.at_level(logging.ERROR):
        assert "unexpectedly" in ((await ended(check)).problem or "")
    assert "the check of the agent failed" in caplog.text


async def test_the_check_does_not_need_the_event_loop_of_the_traffic():
    done = threading.Event()
    with ServerThread(faulty(FAULT)) as agent:
        check = check_of(agent.url)
        original = check._check

        async def watched():
            try:
                return await original()
            finally:
                done.set()

        check._check = watched
        check.start()
        await asyncio.sleep(0)
        assert done.wait(PATIENCE_S)  # blocks this loop
        assert (await ended(check)).report is not None
