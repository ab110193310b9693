"""A run has one verdict: that with which it was made, or judged again. Every door shows it, with any suite or none."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from a2a_eval_proxy.cli import main
from agents.scenario_agent import scenario_agent
from support.proxied import Proxied, proxied

CASES = "cases: [{id: one, turns: [{user: message me}]}, {id: two, turns: [{user: message me again}]}]"
ANSWERED = "evaluators: [{contains: {search_text: e}}]"
NEVER = "evaluators: [{contains: {search_text: no-answer-has-this}}]"
SUITES = {
    "good": f"{ANSWERED}\n{CASES}",
    "bad": f"{NEVER}\n{CASES}",
    "met": f"{NEVER}\ngates: {{contains: 0}}\n{CASES}",
    "missed": f"{ANSWERED}\ngates: {{contains: 1, captured: 1}}\n{CASES}",
    "unmeasured": f"evaluators: [{{contains: {{search_text: e}}}}, tool_trajectory]\n{CASES}",
    "absent": f"{ANSWERED}\ngates: {{tool_trajectory: 0.5}}\n{CASES}",
    "live": "evaluators: [tool_error]\ncases: [{id: talk, turns: [{user: Hello}]}]",
    "halves": "evaluators: [tool_error]\ncases: [{id: talk, turns: [{user: Hello}]}, {id: b, turns: [{user: Later}]}]",
}
OF_RUN = {"good": 0, "bad": 1, "met": 0, "missed": 1, "unmeasured": 1}
"""The exit code of `run` with each of these suites."""


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent() as agent:
        yield agent.url


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "turns.db")
    return str(request.getfixturevalue("postgres").new_store())


def ended(monkeypatch: pytest.MonkeyPatch, *command: str) -> int:
    monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *command])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


async def shown(it: Proxied, run: str) -> dict[str, Any]:
    """What each door of the admin port says of the run."""
    listed = next(each["verdict"] for each in (await it.get("/api/runs"))["items"] if each["name"] == run)
    details = (await it.get(f"/api/runs/{run}"))["verdict"]
    page = (await it.admin.get(f"/runs/{run}", params={"wait": "1"})).text
    report = (await it.admin.get(f"/api/runs/{run}/report")).text
    table = (await it.admin.get("/runs", params={"fragment": "runs"})).text
    row = re.search(rf'<tr id="r-{run}">.*?</tr>', table, re.DOTALL)
    assert row is not None
    words = {
        "page": re.search(r'class="verdict [a-z]+">.*?</span>(.*?)</p>', page),
        "report": re.search(r'class="verdict [a-z]+">.*?</span>(.*?)</p>', report),
        "table": re.search(r'data-head="verdict">(.*?)</td>', row[0]),
    }
    assert details is None or details.items() >= listed.items()
    return {
        "api": listed and (listed["suite"], listed["status"], listed["passed"]),
        **{door: found[1] if found else None for door, found in words.items()},
    }


def said(suite: str | None, words: str) -> dict[str, Any]:
    status = {"Passed": "passed", "Failed": "failed", "Not complete": "incomplete"}.get(words)
    api = suite and (suite, status, words == "Passed")
    return {"api": api, "page": words, "report": words, "table": words}


def test_every_door_has_the_verdict_that_was_kept(
    agent: str, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for name, text in SUITES.items():
        Path(f"{name}.yaml").write_text(f"suite: {name}\n{text}\n")
    expected: dict[str, dict[str, Any]] = {}
    for name, code in OF_RUN.items():
        made = ended(
            monkeypatch, "run", f"{name}.yaml", "--agent", agent, "--store", store, "--run", name, "--report", name,
            "--allow-no-capture",
        )  # fmt: skip
        assert made == code, (name, capsys.readouterr())
        expected[name] = said(name, "Failed" if code else "Passed")
        assert json.loads(Path(name, "report.json").read_text())["passed"] is not bool(code)
        junit = ET.parse(Path(name, "junit.xml")).getroot()
        assert not code or junit.findall(".//failure") or junit.findall(".//error")
    assert ended(monkeypatch, "run", "absent.yaml", "--agent", agent, "--store", store, "--run", "absent") == 2
    judged = "evaluate", "--store", store, "--run", "good", "--suite"
    assert ended(monkeypatch, *judged, "bad.yaml") == 1
    expected["good"] = said("bad", "Failed")
    assert ended(monkeypatch, *judged, "absent.yaml", "--allow-no-capture") == 1
    expected["good"] = said("absent", "Failed")

    async def live() -> None:
        async with proxied(tmp_path, store=store, suite="live.yaml") as it:
            await it.talks("Hello")
            await it.talks("Hi", context="played", a2a_eval_run="played")
            await it.flushed()
        async with proxied(tmp_path, store=store, suite="halves.yaml", run="half") as it:
            await it.talks("Hello", a2a_eval_run="half")
            await it.flushed()

    async def ask(**settings: Any) -> None:
        async with proxied(tmp_path, store=store, run="another", **settings) as it:
            assert {run: await shown(it, run) for run in expected} == expected

    asyncio.run(live())
    expected |= {"nightly": said("live", "Passed"), "played": said(None, "No suite")}
    expected |= {"half": said("halves", "Not complete")}
    capsys.readouterr()
    assert ended(monkeypatch, "runs", "--store", store, "--output", "json") == 0
    listed = {run["name"]: run["verdict"] for run in json.loads(capsys.readouterr().out)}
    assert {name: said and (said["suite"], said["status"], said["passed"]) for name, said in listed.items()} == {
        name: doors["api"] for name, doors in expected.items()
    }
    monkeypatch.setenv("COLUMNS", "200")
    assert ended(monkeypatch, "runs", "--store", store) == 0
    table = capsys.readouterr().out.splitlines()
    for name, doors in expected.items():
        (line,) = [line for line in table if line.startswith(f"{name} ")]
        assert f" {doors['page'].lower()}: " in line
    asyncio.run(ask())
    asyncio.run(ask(suite="good.yaml"))
