"""Metrics that are programs of their own: real processes, well behaved and not."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from pathlib import Path

import pytest
from a2a_tool_capture import ToolCall
from tool_call_evaluators import EvalCase, OptionError, Status, evaluate, get_evaluator, load_suite
from tool_call_evaluators.agent_tree import AgentTurn, AskedBy, EdgeEvidence
from tool_call_evaluators.metrics.external import External
from tool_call_evaluators.suite import parse_case

CASE = EvalCase(
    user_text="Grüße", tool_calls=[{"name": "a", "arguments": {"x": [1, None, True]}}], expected_tool_calls=[]
)


def script(tmp_path: Path, body: str) -> list[str]:
    path = tmp_path / "score.py"
    path.write_text(f"import json, os, sys, time\n{body}\n")
    return [sys.executable, str(path)]


async def run(command, **options):
    (result,) = await evaluate(CASE, [External(command=command, **options)])
    return result


async def test_it_reads_the_case_and_writes_a_result(tmp_path):
    command = script(
        tmp_path,
        "given = json.load(sys.stdin)\n"
        "json.dump({'score': 0.5, 'reason': given['case']['user_text'], 'details': given}, sys.stdout)",
    )
    result = await run(command, id="mine", options={"depth": 2}, threshold=0.5)
    assert (result.evaluator, result.score, result.status, result.reason) == ("mine", 0.5, Status.PASSED, "Grüße")
    given = dict(result.details)
    assert EvalCase.from_dict(given.pop("case")) == CASE
    assert given == {"version": 1, "metric": "mine", "scope": "turn", "options": {"depth": 2}}


async def test_it_reads_the_tree_of_each_turn(tmp_path):
    asked = AskedBy(EdgeEvidence.TRACE_CONTEXT, certain=True, reason="")
    calls = (ToolCall("find", {"order": 1}),)
    orders = AgentTurn("t2", "orders", 1.5, user_text="x" * 900, tool_calls=calls, asked=asked)
    case = EvalCase(tree=AgentTurn("t1", "desk", 0.0, children=(orders,)))
    command = script(tmp_path, "print(json.dumps({'score': 1, 'details': json.load(sys.stdin)['case']}))")
    evaluator = External(command=command, tree=True)
    (of_turn,) = await evaluate(case, [evaluator])
    (of_whole,) = await evaluate(EvalCase(turns=[case, case]), [evaluator])
    (without,) = await evaluate(CASE, [evaluator])
    tree = of_turn.details["tree"]
    assert of_whole.details["turns"][1]["tree"] == tree
    (child,) = tree["root"]["children"]
    assert (child["agent"], child["tool_calls"]) == ("orders", [{"name": "find", "error": False}])
    assert (child["started_at"], len(child["user_text"])) == ("1970-01-01T00:00:01.500000Z", 200)
    assert tree["totals"]["turns"] == 2
    assert (without.status, without.reason) == (Status.SKIPPED, "not given: trees")
    assert EvalCase.from_dict(of_turn.details) == EvalCase()


async def test_a_program_that_reads_nothing_and_one_that_skips(tmp_path):
    big = EvalCase(response_text="x" * 3_000_000)
    (result,) = await evaluate(big, [External(command=script(tmp_path, "sys.stdin.close(); print(1)"))])
    assert result.score == 1.0
    skipped = await run(script(tmp_path, """print('{"skipped": "nothing to see"}')"""))
    assert (skipped.status, skipped.reason) == (Status.SKIPPED, "nothing to see")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("print('hello')", "wrote no valid result (Expecting value: line 1 column 1 (char 0)): hello"),
        ("pass", "wrote no valid result (Expecting value: line 1 column 1 (char 0)): nothing"),
        ("print('[1]')", "wrote no valid result (expected a number, a label or an object, got list): [1]"),
        ("print('null')", "wrote no valid result (expected a number, a label or an object, got NoneType): null"),
        ("""print('{"score": 1, "scor": 2}')""", "wrote no valid result (unknown key 'scor'"),
        ("sys.exit(3)", "ended with exit code 3"),
        ("print(1); print('boom', file=sys.stderr); sys.exit(1)", "ended with exit code 1: boom"),
        ("os.kill(os.getpid(), 9)", "ended with exit code -9"),
        ("print('x' * 1_000_001)", "wrote more than 1,000,000 bytes"),
        ("while True: sys.stdout.write('x' * 10_000)", "wrote more than 1,000,000 bytes"),
        ("print('9' * 5000)", "wrote no valid result"),
    ],
)  # fmt: skip
async def test_what_is_no_result_is_an_error_that_says_so(tmp_path, body, reason):
    result = await run(script(tmp_path, body))
    assert (result.status, result.score) == (Status.ERRORED, None)
    assert result.reason.startswith(f"ExternalError: {sys.executable} {reason}")


async def test_a_program_that_does_not_finish_is_stopped_with_all_it_started(tmp_path):
    pids = tmp_path / "pids"
    command = script(
        tmp_path,
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)",
    )
    pids.touch()
    for timeout_s in (0.5, 5, 50):  # on a busy machine the program needs longer to get so far
        result = await run(command, timeout=timeout_s)
        assert result.reason == f"ExternalError: {sys.executable} did not finish within {timeout_s} s"
        if pids.read_text():
            break
    for pid in map(int, pids.read_text().split()):
        assert ended(pid)


def ended(pid: int) -> bool:
    """Whether a process has ended, as one that was killed does when it gets round to it."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 10)[0])
    finally:
        os.close(process)


@pytest.mark.parametrize("own_session", [False, True])
async def test_a_process_that_is_left_in_the_background_costs_no_result(tmp_path, own_session):
    """It holds the pipes. One that has a session of its own cannot be known and stays; the others are killed."""
    command = script(
        tmp_path,
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        f" start_new_session={own_session})\n"
        "print('x' * 500_000, file=sys.stderr)\n"
        "print(json.dumps({'score': 1, 'reason': str(child.pid), 'details': {'text': 'x' * 900_000}}))",
    )
    before = len(list(Path("/proc/self/fd").iterdir()))
    result = await run(command, timeout=10)
    assert result.score == 1, result.reason
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    if own_session:
        os.kill(int(result.reason), signal.SIGKILL)
    assert ended(int(result.reason))


async def test_a_cancelled_evaluation_leaves_nothing_running(tmp_path):
    started = tmp_path / "started"
    os.mkfifo(started)
    command = script(tmp_path, f"open({str(started)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)")
    task = asyncio.create_task(evaluate(CASE, [External(command=command)]))
    pid = int(await asyncio.to_thread(started.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended(pid)


async def test_no_shell_and_no_such_program(tmp_path):
    command = script(tmp_path, "print(json.dumps({'score': 1, 'reason': sys.argv[1]}))")
    result = await run([*command, "$HOME; echo *"])
    assert result.reason == "$HOME; echo *"
    missing = await run(["./no-such-program"])
    assert missing.reason == "ExternalError: ./no-such-program cannot be run: No such file or directory"
    (tmp_path / "data.txt").write_text("1")
    assert "cannot be run: Permission denied" in (await run([str(tmp_path / "data.txt")])).reason
    assert "cannot be run" in (await run(["a\0b"])).reason


async def test_a_program_beside_its_suite(tmp_path):
    program = tmp_path / "score.sh"
    program.write_text('#!/bin/sh\ncat > /dev/null\necho "{\\"score\\": 1, \\"reason\\": \\"$(basename "$PWD")\\"}"\n')
    program.chmod(0o755)
    suite = tmp_path / "suite.yaml"
    suite.write_text("suite: s\nevaluators: [{external: {command: [./score.sh], id: my_metric, timeout: 10}}]\n")
    (result,) = await evaluate(CASE, load_suite(suite).build_evaluators())
    assert (result.evaluator, result.score, result.reason) == ("my_metric", 1.0, tmp_path.name)
    (tmp_path / "sub").mkdir()
    suite.write_text("suite: s\nevaluators: [{external: {command: [../score.sh], folder: sub}}]\n")
    (result,) = await evaluate(CASE, load_suite(suite).build_evaluators())
    assert result.reason == "sub"


def test_a_case_from_elsewhere_cannot_name_a_program_or_a_judge():
    for evaluator in ({"External": {"Command": ["id"]}}, {"helpfulness": {"judge": {"base_url": "http://evil/v1"}}}):
        with pytest.raises(ValueError, match="may only be set in a suite file"):
            parse_case({"id": "c", "turns": [{"user": "hi"}], "evaluators": [evaluator]})


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"command": []}, "option command must be a list with at least the program"),
        ({"command": "score.py"}, "option command must be a list of strings; got 'score.py'"),
        ({"command": ["x"], "timeout": 0}, "option timeout must be a positive number of seconds"),
        ({"command": ["x"], "scale": [1, 1]}, r"option scale must be \[lowest, highest\]"),
        ({"command": ["x"], "scale": [1, 5], "threshold": 0}, "threshold must lie between 1 and 5"),
        ({"command": ["x"], "labels": {"a": "1"}}, "option labels must be a mapping or null"),
    ],
)
def test_options_that_cannot_be(options, complaint):
    with pytest.raises(OptionError, match=complaint):
        get_evaluator("external", **options)
