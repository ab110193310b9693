"""`--no-judge-cache`: the judge is asked again, by `evaluate` as by `run`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from agents.serving import ServerThread
from judges.fake_api import KEY, MODEL, FakeApi
from stored_runs import store_turns
from turn_samples import turn


@pytest.mark.parametrize(("flags", "asked"), [([], [1, 1, 1]), (["--no-judge-cache"], [1, 2, 3])])
def test_stored_turns_are_judged_again_where_that_is_wanted(tmp_path: Path, flags: list[str], asked: list[int]) -> None:
    store_turns(tmp_path / "turns.db", [turn("1", case="a")], "monday")
    api = FakeApi()
    requests = []
    with ServerThread(api.app) as server:
        suite = tmp_path / "suite.yaml"
        suite.write_text(f"""
suite: judged
judge: {{model: {MODEL}, base_url: "{server.url}/v1"}}
evaluators: [{{helpfulness: {{threshold: 1}}}}]
cases: [{{id: a, turns: [{{user: "Where is my order?"}}]}}]
""")
        command = [sys.executable, "-m", "a2a_eval_proxy", "evaluate", "--store", str(tmp_path / "turns.db")]
        environment = os.environ | {"A2A_EVAL_PROXY_JUDGE_API_KEY": KEY}
        for _ in asked:
            done = subprocess.run(
                [*command, "--suite", str(suite), *flags], capture_output=True, text=True, timeout=60, env=environment
            )
            assert done.returncode == 0, done.stdout + done.stderr
            requests.append(len(api.requests))
    assert requests == asked
