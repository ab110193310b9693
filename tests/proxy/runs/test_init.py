"""`init`: the files for an agent, and that they are read as they are meant."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from a2a_eval_proxy.features.init.first_suite import CI, FirstSuite, files, first_suite
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from a2a_tool_capture.errors import AgentError
from agents.approval_agent import approval_agent
from agents.scenario_agent import AgentOptions as ScenarioOptions
from agents.scenario_agent import scenario_agent
from tool_call_evaluators.suite import parse_suite

PROGRAM = """\
#!/bin/sh
printf '%s' "$*" > arguments
code=$(head -n 1 codes)
sed -i 1d codes
exit "$code"
"""


async def test_an_agent_that_shows_no_calls_has_a_suite_that_passes_and_a_case_to_complete(tmp_path: Path) -> None:
    with scenario_agent(ScenarioOptions(declared=False)) as agent:
        suite = await first_suite(AgentOptions(agent.url), "message me")
    assert "does not declare" in suite.unseen
    (case,) = parse_suite(suite.text).cases
    assert (case.turns[0].user, case.turns[0].expect.tool_calls) == ("message me", None)
    with scenario_agent(ScenarioOptions(declared=False)) as agent:
        passing = await run_suite(parse_suite(suite.text), AgentOptions(agent.url), str(tmp_path / "turns.db"), "first")
    assert passing.verdict.passed, passing.verdict.reasons
    completed = parse_suite(suite.text.replace("# expect", "expect", 1))
    assert [call.name for call in completed.cases[0].turns[0].expect.tool_calls or ()] == ["NAME"]


async def test_the_call_that_waits_is_told_and_expected() -> None:
    with approval_agent("asks") as agent:
        suite = await first_suite(AgentOptions(agent.url), "Refund this.")
    assert suite.summary.endswith('; refund(order="A-1") waits for approval')
    assert "expect: {tool_calls: [], approval: {tool: refund, arguments: {order: A-1}}}" in suite.text


async def test_an_agent_that_fails_has_no_suite() -> None:
    said = r"the agent failed 'fail' \(tool backend unavailable\); read its log"
    with scenario_agent() as agent, pytest.raises(AgentError, match=said):
        await first_suite(AgentOptions(agent.url), "fail")


@pytest.mark.parametrize(("codes", "ended"), [((3, 3, 0), 0), ((3, 2), 1), ((2,), 1)])
def test_the_ci_job_waits_for_the_agent_but_not_with_a_wrong_suite(
    codes: tuple[int, ...], ended: int, tmp_path: Path
) -> None:
    """The program is a stand-in that ends with one code after the other: only the shell's loop is tested here."""
    job = files(FirstSuite("suite: x\n", "", ""), "http://agent", "127.0.0.1:4318")[CI]
    assert "start the agent here, in the background, with OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 O" in job
    steps = yaml.safe_load(job)["jobs"]["evaluate"]["steps"]
    (waiting,) = [step["run"] for step in steps if step.get("name") == "Wait for the agent"]
    (tmp_path / "codes").write_text("".join(f"{code}\n" for code in codes))
    for name, text in {"a2a-eval-proxy": PROGRAM, "sleep": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-ec", waiting], cwd=tmp_path, env={"PATH": path}, check=False)
    assert done.returncode == ended
    assert (tmp_path / "codes").read_text() == ""
    assert (tmp_path / "arguments").read_text() == "validate suite.yaml"
