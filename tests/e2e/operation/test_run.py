"""`run` and `evaluate` as a pipeline calls them: exit codes, reports, an end by SIGKILL, suites of other tools."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from a2a_tool_capture import ToolCall
from agents.expected_agent import expected_agent
from agents.serving import ServerThread
from e2e.contracts import GetAgent
from e2e.operation.test_crash import wait_until_stored
from e2e.streams import open_gate
from judges.fake_api import KEY, MODEL, FakeApi, Reply, says
from support.prefork import COMMAND, run
from support.processes import ChildProcess
from tool_call_evaluators.importers import import_suite

SUITE = """\
suite: weather
evaluators: [tool_error, {tool_trajectory: {mode: in_order}}]
cases:
  - id: good
    turns:
      - user: artifact please
        expect: {tool_calls: [{name: search, arguments: null}, {name: convert, arguments: null}]}
"""
FAILING = SUITE.replace("name: convert", "name: sing")


def written(folder: Path, text: str, name: str = "suite.yaml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def exported(store: Path, *arguments: str) -> list[dict[str, Any]]:
    result = run("export", "--store", store, *arguments, cwd=store.parent)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


# ── exit codes ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_passes_fails_and_is_evaluated_again(agent: GetAgent, tmp_path: Path) -> None:
    good, failing = written(tmp_path, SUITE), written(tmp_path, FAILING, "failing.yaml")
    store, url = tmp_path / "turns.db", agent("v1")
    passed = run("run", good, "--agent", url, "--store", store, "--run", "one", cwd=tmp_path)
    assert (passed.returncode, passed.stderr) == (0, "")
    assert "passed" in passed.stdout
    failed = run("run", failing, "--agent", url, "--store", store, "--run", "two", cwd=tmp_path)
    assert failed.returncode == 1
    assert "(tool_trajectory)" in failed.stdout

    again = run("evaluate", "--store", store, "--run", "one", "--suite", failing, "--report", "said", cwd=tmp_path)
    assert again.returncode == 1
    assert "(tool_trajectory)" in again.stdout
    report = json.loads((tmp_path / "said/report.json").read_text())
    assert (report["run"], report["passed"], report["turns"]) == ("one", False, 1)
    (testsuite,) = ET.parse(tmp_path / "said/junit.xml").getroot().iter("testsuite")
    assert (testsuite.get("tests"), testsuite.get("failures")) == ("1", "1")
    assert run("evaluate", "--store", store, "--run", "two", "--suite", good, cwd=tmp_path).returncode == 0
    assert run("evaluate", "--suite", good, cwd=tmp_path, A2A_EVAL_PROXY_STORE=str(store)).returncode == 0


# ── suites of other tools ───────────────────────────────────────────────────────────────────────────────────


EVALSETS = Path(__file__).parents[2] / "evaluators/fixtures/google-adk"


@pytest.mark.parametrize(
    ("evalset", "turns"),
    [("hello_world_agent/roll_die.test.json", 3), ("elicitation_agent/elicitation_flow.test.json", 2)],
)
def test_evalsets_of_google_adk_run_as_they_are(evalset: str, turns: int, tmp_path: Path) -> None:
    """They pass for an agent that makes the expected calls, and fail for one that makes none, and if none is expected:
    then nothing is measured."""
    path = EVALSETS / evalset
    expected = {
        turn.user: turn.expect.tool_calls or () for case in import_suite(path).suite.cases for turn in case.turns
    }
    compared = "tool_trajectory" in {spec.name for spec in import_suite(path).suite.evaluators}
    for calls, exit_code in ((expected, 0 if compared else 1), ({}, 1)):
        with ServerThread(lambda url, calls=calls: expected_agent(url, calls)) as server:
            result = run("run", path, "--agent", server.url, "--store", f"{len(calls)}.db", "--run", "x", cwd=tmp_path)
        assert result.returncode == exit_code, result.stdout + result.stderr
        assert f"run x: {turns} turn" in result.stdout


BY_MEANING = """\
suite: meaning
judge: {{base_url: {judge}/v1, model: {model}}}
evaluators: [tool_trajectory]
cases:
  - id: right
    turns:
      - user: right
        expect: &wanted
          tool_calls:
            - name: refund
              arguments:
                day: {{$date: 2026-05-01}}
                body: {{$json: {{id: 7, note: {{$same: It never arrived}}}}}}
                reason: {{$same: The parcel is lost}}
  - {{id: wrong, turns: [{{user: wrong, expect: *wanted}}]}}
"""


def test_arguments_are_compared_by_what_they_mean(tmp_path: Path) -> None:
    """The agent that is wrong says another thing in the same words. Nothing is asked twice."""

    def verdicts(request: dict[str, Any]) -> Reply:
        pairs = re.findall(r'"(pair_\d)": \{.*"actual": "(.*)"', request["messages"][-1]["content"])
        return says({name: {"reason": f"{actual}?", "verdict": "not" in actual} for name, actual in pairs})

    same = {"day": "May 1, 2026", "body": '{"id": 7.0, "note": "It did not come"}'}
    calls = {
        case: [ToolCall("refund", {**same, "reason": reason})]
        for case, reason in (("right", "I cannot find it"), ("wrong", "The parcel is late"))
    }
    api, store = FakeApi(verdicts), ("--store", tmp_path / "turns.db", "--run", "x")
    with ServerThread(api.app) as judge, ServerThread(lambda url: expected_agent(url, calls)) as agent:
        suite = written(tmp_path, BY_MEANING.format(judge=judge.url, model=MODEL))
        key, report = {"A2A_EVAL_PROXY_JUDGE_API_KEY": KEY}, ("--report", tmp_path / "report")
        made = run("run", suite, "--agent", agent.url, *store, *report, cwd=tmp_path, **key)
        again = run("evaluate", "--suite", suite, *store, cwd=tmp_path, **key)
    assert (made.returncode, again.returncode, len(api.requests)) == (1, 1, 2), made.stdout + made.stderr
    right, wrong = sorted(exported(tmp_path / "turns.db", "--run", "x"), key=lambda turn: turn["case_id"])
    assert [turn["evaluations"][0]["passed"] for turn in (right, wrong)] == [True, False]
    assert 'reason: expected what means "The parcel is lost", got "The parcel is late"' in made.stdout
    assert wrong["evaluations"][0]["details"]["same"][-1]["reason"] == "The parcel is late?"
    assert "what means" in (tmp_path / "report/report.html").read_text("utf-8")


SKILLS = """\
suite: skills
evaluators: [skills]
cases:
  - {id: right, turns: [{user: right, expect: {skills: [refunds], forbidden_skills: [mail]}}]}
  - {id: wrong, turns: [{user: wrong, expect: {skills: [refunds]}}]}
  - {id: none, turns: [{user: none, expect: {skills: [refunds]}}]}
"""


def test_skills_are_those_that_the_calls_load(tmp_path: Path) -> None:
    """The agent loads the right skill, another one, or none."""
    suite = written(tmp_path, SKILLS)
    calls = {"right": [ToolCall("load_skill", {"name": "refunds"})], "wrong": [ToolCall("Skill", {"skill": "mail"})]}
    with ServerThread(lambda url: expected_agent(url, {"none": [ToolCall("search", {})], **calls})) as agent:
        assert run("run", suite, "--agent", agent.url, "--report", ".", cwd=tmp_path).returncode == 1
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    found = [one["turns"][0]["results"][0]["status"] for one in report["conversations"]]
    assert found == ["passed", "failed", "failed"]


# ── some of the cases ───────────────────────────────────────────────────────────────────────────────────────

CASES = """\
suite: weather
evaluators: [tool_error, {exact_match: {scope: turn}}]
cases:
  - {id: search-good, tags: [quick], turns: [{user: artifact please}]}
  - {id: search-wrong, tags: [quick], turns: [{user: artifact please, expect: {response: nothing}}]}
  - {id: words, turns: [{user: message please}]}
"""


def cases(store: Path, name: str) -> list[str]:
    shown = run("show", name, "--output", "json", "--store", store)
    return [turn["case_id"] for turn in json.loads(shown.stdout)["items"]]


def test_the_newest_run_is_evaluated_and_other_cases_keep_their_results(agent: GetAgent, tmp_path: Path) -> None:
    suite = written(tmp_path, CASES)
    store = ("--store", tmp_path / "turns.db")
    run("run", suite, "--agent", agent("v1"), "--run", "old", "--case", "words", *store, cwd=tmp_path)
    run("run", suite, "--agent", agent("v1"), "--run", "new", *store, cwd=tmp_path)
    before = run("export", "--run", "new", *store).stdout.splitlines()
    strict = written(tmp_path, CASES.replace("tool_error", "tool_call_validity"), "strict.yaml")
    again = run("evaluate", "--suite", strict, "--case", "search-good", *store, cwd=tmp_path)
    assert again.stderr == "run new, the newest of 2 runs; choose another with --run NAME\n"
    assert "run new: 1 turn" in again.stdout
    after = run("export", "--run", "new", *store).stdout.splitlines()
    changed = [json.loads(new)["case_id"] for old, new in zip(before, after, strict=True) if old != new]
    assert changed == ["search-good"]
    everything = run("evaluate", "--suite", suite, "--run", "old", "-q", *store, cwd=tmp_path)
    assert (everything.returncode, everything.stderr) == (1, "")
    assert "search-good" in everything.stdout


def test_no_conversation_begins_after_one_that_failed(agent: GetAgent, tmp_path: Path) -> None:
    suite = written(tmp_path, CASES)
    store = tmp_path / "turns.db"
    command = ["run", suite, "--agent", agent("v1"), "--store", store, "--run", "r", "--concurrency", "1"]
    result = run(*command, "--fail-fast", cwd=tmp_path)
    assert result.returncode == 1
    assert "case words and later ones are not run: one failed (--fail-fast)" in result.stderr
    assert cases(store, "r") == ["search-good", "search-wrong"]
    run(*command, "--resume", cwd=tmp_path)
    assert cases(store, "r") == ["search-good", "search-wrong", "words"]


# ── long runs ───────────────────────────────────────────────────────────────────────────────────────────────


def many(count: int) -> str:
    """A suite of that many conversations in cases of one or two turns, some of them repeated."""
    cases = []
    for number in range(count // 5):
        cases += [
            f"  - {{id: one-{number}, turns: [{{user: artifact please}}]}}",
            f"  - {{id: two-{number}, turns: [{{user: artifact please}}, {{user: message please}}]}}",
            f"  - {{id: again-{number}, repeat: 3, turns: [{{user: message please}}]}}",
        ]
    return "suite: many\nevaluators: [tool_error]\ncases:\n" + "\n".join(cases)


def held_back(count: int, gate: str) -> str:
    """As `many`, and a last conversation that the agent ends only when the gate is open: the run cannot end before."""
    return many(count) + f"\n  - {{id: held, turns: [{{user: slow {gate}}}]}}"


async def test_a_killed_run_goes_on_where_it_was(agent: GetAgent, tmp_path: Path) -> None:
    upstream, gate, store = agent("v1"), str(uuid.uuid4()), tmp_path / "turns.db"
    suite = written(tmp_path, held_back(200, gate))
    command = ["run", suite, "--agent", upstream, "--store", store, "--run", "night", "--concurrency", "8"]
    seen: set[str] = set()
    for stop_at, resuming in ((40, []), (120, ["--resume"])):
        with ChildProcess([COMMAND, *command, *resuming], cwd=tmp_path) as child:
            wait_until_stored(store, stop_at, child)
            child.kill()
        with sqlite3.connect(store) as database:
            rows = database.execute("SELECT turn_id, conversation_id, case_id FROM turns").fetchall()
        database.close()
        lengths = Counter(conversation for _, conversation, _ in rows)
        finished = {
            turn_id
            for turn_id, conversation, case_id in rows
            if lengths[conversation] == (2 if case_id.startswith("two-") else 1)
        }
        assert seen <= finished  # what was finished before stands
        seen = finished
    await open_gate(upstream, gate)
    result = run(*command, "--resume", "--report", "report", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    turns = exported(store)
    assert seen <= {turn["turn_id"] for turn in turns}
    conversations = {turn["conversation_id"]: turn["case_id"] for turn in turns}
    assert Counter(conversations.values()) == {
        f"{kind}-{number}": count for kind, count in (("one", 1), ("two", 1), ("again", 3)) for number in range(40)
    } | {"held": 1}
    assert len(turns) == 241
    assert all(turn["status"] == "done" for turn in turns)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_hundreds_of_conversations_take_little_memory(agent: GetAgent, tmp_path: Path) -> None:
    suite, store = written(tmp_path, many(300)), tmp_path / "turns.db"
    peak = "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
    peak += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(code)"
    result = subprocess.run(
        [sys.executable, "-c", peak, COMMAND, "run", suite, "--agent", agent("v1"), "--store", store],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr
    assert "360 turns" in result.stdout
    assert int(result.stderr.splitlines()[-1]) < 150 * 1024  # kB; an empty run takes some 80 MB
