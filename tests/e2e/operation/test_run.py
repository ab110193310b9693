"""`run` and `evaluate` as a pipeline calls them: exit codes, reports, an end by SIGKILL, suites of other tools."""

from __future__ import annotations

import json
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from agents.expected_agent import expected_agent
from agents.serving import ServerThread
from e2e.contracts import GetAgent
from e2e.operation.test_crash import wait_until_stored
from e2e.streams import open_gate
from judges.fake_api import KEY, MODEL, FakeApi, says
from support.patience import POLL_S
from support.prefork import COMMAND, run
from support.processes import ChildProcess
from support.proxy import Proxy
from support.raw_a2a import Wire
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


def written(folder: Path, text: str | bytes, name: str = "suite.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
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


JUDGED = "judge: JUDGE\ntolerate: [errored]\n" + SUITE.replace("[tool_error,", "[helpfulness, tool_error,")


@pytest.mark.parametrize(
    ("judge", "missing"),
    [
        (
            "{}",
            "no model is configured; give the suite a `judge` block with a model, or set A2A_EVAL_PROXY_JUDGE_MODEL",
        ),
        ("{model: gpt-4o}", "api.openai.com needs a key; set A2A_EVAL_PROXY_JUDGE_API_KEY or OPENAI_API_KEY, or name"),
        ("{model: m, api_key_env: MINE}", "the environment variable MINE, which the judge's settings name, is not set"),
    ],
)
def test_without_a_model_or_key_nothing_passes(judge: str, missing: str, agent: GetAgent, tmp_path: Path) -> None:
    """An unreachable agent would end with 3: it is not asked."""
    unset = {f"A2A_EVAL_PROXY_JUDGE_{name}": "" for name in ("MODEL", "BASE_URL", "API_KEY")}
    unset |= {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": "", "MINE": ""}
    suite = written(tmp_path, JUDGED.replace("JUDGE", judge))
    driven = run("run", suite, "--agent", "http://127.0.0.1:1", "--store", tmp_path / "a.db", cwd=tmp_path, **unset)
    plain = written(tmp_path, SUITE, "plain.yaml")
    stored = ("--store", tmp_path / "b.db", "--run", "one")
    run("run", plain, "--agent", agent("v1"), *stored, cwd=tmp_path)
    again = run("evaluate", "--suite", suite, *stored, cwd=tmp_path, **unset)
    for result in (driven, again):
        assert (result.returncode, result.stdout) == (2, ""), result.stderr
        (line,) = result.stderr.splitlines()
        assert "a judge is needed for helpfulness: " in line
        assert missing in line


def test_what_the_suite_says_of_the_agent_holds_where_no_flag_says_otherwise(agent: GetAgent, tmp_path: Path) -> None:
    suite = written(tmp_path, f"agent: {{url: {agent('v1')}, binding: HTTP+JSON}}\n{SUITE}")
    assert run("run", suite, "--store", "a.db", cwd=tmp_path).returncode == 0
    assert run("run", suite, "--store", "b.db", "--binding", "JSONRPC", cwd=tmp_path).returncode == 0
    assert [exported(tmp_path / name)[0]["binding"] for name in ("a.db", "b.db")] == ["HTTP+JSON", "JSONRPC"]
    assert run("run", suite, "--agent", "http://127.0.0.1:1", "--store", "c.db", cwd=tmp_path).returncode == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "suite.yaml"], "--agent"),
        (["run", "suite.yaml", "--agent", "http://127.0.0.1:1", "--resume"], "--run NAME"),
        (["run", "suite.yaml", "--agent", "http://127.0.0.1:1", "--concurrency", "0"], "--concurrency"),
        (["run", "suite.yaml", "--agent", "http://127.0.0.1:1", "--format", "nose"], "--format"),
        (["run", "suite.yaml", "--agent", "http://127.0.0.1:1", "--format", "arksim"], "suite.yaml"),
        (["evaluate", "--store", "no-such.db", "--suite", "suite.yaml"], "no-such.db"),
        (["evaluate", "--store", "no-such.db"], "--suite"),
        (["evaluate", "--suite", "suite.yaml"], "--store"),
        (["evaluate", "--store", "no-such.db", "--suite", "missing.yaml"], "missing.yaml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_usage(arguments: list[str], named: str, tmp_path: Path) -> None:
    written(tmp_path, SUITE)
    assert_one_sentence(run(*arguments, cwd=tmp_path), named)


def assert_one_sentence(result: subprocess.CompletedProcess[str], *named: str) -> None:
    assert result.returncode == 2, result.stderr
    for name in named:
        assert name in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""


def test_a_run_that_the_store_does_not_have(agent: GetAgent, tmp_path: Path) -> None:
    suite = written(tmp_path, SUITE)
    assert run("run", suite, "--agent", agent("v1"), "--store", "t.db", "--run", "one", cwd=tmp_path).returncode == 0
    assert_one_sentence(
        run("evaluate", "--store", "t.db", "--run", "two", "--suite", suite, cwd=tmp_path), "'two'", "one"
    )
    assert_one_sentence(
        run("run", suite, "--agent", agent("v1"), "--store", "t.db", "--run", "one", cwd=tmp_path), "--resume"
    )


# ── suites of other tools ───────────────────────────────────────────────────────────────────────────────────


def test_a_dokimos_dataset_is_run_as_it_is(agent: GetAgent, tmp_path: Path) -> None:
    example = {"input": "artifact please", "expectedOutputs": {"toolCalls": [{"name": "search"}, {"name": "convert"}]}}
    dataset = written(tmp_path, json.dumps({"name": "faq", "examples": [example]}), "dataset.json")
    result = run("run", dataset, "--agent", agent("v1"), "--store", "t.db", "--run", "one", cwd=tmp_path)
    assert result.returncode in (0, 1), result.stderr
    assert "run one: 1 turn," in result.stdout
    named = run("evaluate", "--store", "t.db", "--suite", dataset, "--format", "dokimos", cwd=tmp_path)
    assert named.returncode == result.returncode
    assert_one_sentence(
        run("evaluate", "--store", "t.db", "--suite", dataset, "--format", "uipath", cwd=tmp_path), "dataset.json"
    )


def test_what_was_not_taken_over_is_told(agent: GetAgent, tmp_path: Path) -> None:
    case = {"eval_id": "a", "conversation": [{"user_content": {"parts": [{"text": "artifact please"}]}}]}
    evalset = {"eval_set_id": "shop", "eval_cases": [case | {"rubrics": [{"rubric_id": "r"}]}]}
    suite = written(tmp_path, json.dumps(evalset), "shop.evalset.json")
    result = run("run", suite, "--agent", agent("v1"), "--store", "t.db", cwd=tmp_path)
    assert "shop.evalset.json" in result.stderr
    assert "google-adk" in result.stderr
    assert "rubric" in result.stderr


EVALSETS = Path(__file__).parents[2] / "evaluators/fixtures/google-adk"


@pytest.mark.parametrize(
    ("evalset", "turns"),
    [
        ("hello_world_agent/roll_die.test.json", 3),
        ("home_automation_agent/simple_test2.test.json", 1),
        ("home_automation_agent/test_files/dependent_tool_calls.test.json", 2),
        ("home_automation_agent/test_files/memorizing_past_events/eval_data.test.json", 2),
        ("trip_planner_agent/test_files/trip_inquiry_sub_agent.test.json", 1),
        ("elicitation_agent/elicitation_flow.test.json", 2),
    ],
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


def test_a_conversation_scenario_of_google_adk_is_held_by_a_simulated_user(tmp_path: Path) -> None:
    """The user's model is a stand-in for a language model."""
    evalset = EVALSETS / "live_non_blocking_tool_agent/live_non_blocking_tool_agent.evalset.json"
    api = FakeApi(lambda request: says(["What is two plus two?", "###STOP###"][len(api.requests) - 1]))
    with ServerThread(api.app) as model, ServerThread(lambda url: expected_agent(url, {})) as server:
        user = {
            "A2A_EVAL_PROXY_SIMULATED_USER_MODEL": MODEL,
            "A2A_EVAL_PROXY_SIMULATED_USER_BASE_URL": f"{model.url}/v1",
            "A2A_EVAL_PROXY_SIMULATED_USER_API_KEY": KEY,
        }
        result = run("run", evalset, "--agent", server.url, "--store", "t.db", "--run", "x", cwd=tmp_path, **user)
    assert "run x: 4 turns" in result.stdout, result.stdout + result.stderr
    instructions = api.requests[0]["messages"][0]["content"]
    assert "index my documents" in instructions
    assert "NOVICE" in instructions
    turns = [turn for turn in exported(tmp_path / "t.db") if turn["case_id"] == "background_task_scenario"]
    assert [turn["user_text"] for turn in turns] == [
        "Hi, can you kick off a long background task for me?",
        "What is two plus two?",
    ]


# ── evaluate on proxied traffic ─────────────────────────────────────────────────────────────────────────────


def test_traffic_of_the_proxy_is_matched_by_case_and_by_text(agent: GetAgent, tmp_path: Path) -> None:
    store = tmp_path / "turns.db"
    with Proxy(agent("v1"), store, "--run", "traffic", "--no-evaluate") as proxy:
        Wire("1.0", "JSONRPC").message("artifact please").to(proxy.url)
        Wire("1.0", "JSONRPC").message("artifact again").plus(("A2A-Eval-Case", "named")).to(proxy.url)
        proxy.flush()
    more = SUITE + SUITE.partition("cases:\n")[2].replace("good", "named").replace("artifact please", "whatever")
    result = run("evaluate", "--store", store, "--suite", written(tmp_path, more), "--report", "r", cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    report = json.loads((tmp_path / "r/report.json").read_text())
    assert [item["label"] for item in report["conversations"]] == ["good", "named"]
    turns = exported(store)
    assert [turn["status"] for turn in turns] == ["done", "done"]
    assert all(result["passed"] for turn in turns for result in turn["evaluations"])


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
            wait_for_store(store, child)
            wait_until_stored(store, stop_at)
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


async def test_an_interrupted_run_says_how_to_go_on(agent: GetAgent, tmp_path: Path) -> None:
    upstream, gate, store = agent("v1"), str(uuid.uuid4()), tmp_path / "turns.db"
    command = ["run", written(tmp_path, held_back(200, gate)), "--agent", upstream, "--store", store]
    with ChildProcess([COMMAND, *command], cwd=tmp_path) as child:
        wait_for_store(store, child)
        wait_until_stored(store, 5)
        child.process.send_signal(signal.SIGINT)
        assert child.process.wait(100) == 130
        found = re.search("interrupted; to resume the run, .* with (--run .+ --resume)", child.stderr())
    assert found
    await open_gate(upstream, gate)
    result = run(*command, *shlex.split(found[1]), cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(exported(store)) == 241


def wait_for_store(store: Path, child: ChildProcess) -> None:
    """Until the store has its tables."""
    while True:
        assert child.process.poll() is None, child.stderr()
        if store.exists():
            with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
                (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            database.close()
            if tables:
                return
        time.sleep(POLL_S)


@pytest.mark.slow
def test_hundreds_of_conversations_take_little_memory(agent: GetAgent, tmp_path: Path) -> None:
    suite, store = written(tmp_path, many(500)), tmp_path / "turns.db"
    peak = "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
    peak += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(code)"
    result = subprocess.run(
        [sys.executable, "-c", peak, COMMAND, "run", suite, "--agent", agent("v1"), "--store", store],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr
    assert "600 turns" in result.stdout
    assert int(result.stderr.splitlines()[-1]) < 150 * 1024  # kB; an empty run takes some 80 MB, this one 115
